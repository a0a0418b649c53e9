//! What becomes of each of many texts: a table of JSON's hard cases, of what CPython takes, and of damaged events.
//!
//! `outcomes.tsv` is the corpus and the answer. Names begin with `y_` where every JSON reader takes the text, `n_` where
//! none should, `i_` where readers differ, `m_` where a real event was damaged. CPython's own verdict, on which the
//! leniency of contract.md section 1.1 rests, was taken from `json.loads` of 3.11. With `UPDATE_GOLDEN=1` the test writes
//! the column `outcome` anew, for a reader to look at.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use duplex_collector::wire::Decoder;

/// What the cases whose text is a field's value begin with.
const FIELD: &[u8] = br#"{"type":"session.updated","x":"#;

/// The same value where the decoder reads it, and does not only skip it.
const READ_FIELDS: [(&str, &str); 8] = [
    (r#"{"type":"response.output_audio.delta","response_id":"r","delta":"#, "}"),
    (r#"{"type":"response.output_audio.delta","response_id":"r","audio":"#, "}"),
    (r#"{"type":"response.output_text.delta","response_id":"r","delta":"#, "}"),
    (r#"{"type":"response.created","response":"#, "}"),
    (r#"{"type":"#, "}"),
    (r#"{"server_event_seq":"#, "}"),
    (r#"{"_client_received_at_s":"#, "}"),
    (r#"{"metadata":{"vllm_omni":{"stage_metrics":{"0":{"num_tokens_out":"#, "}}}}}"),
];

struct Case {
    name: String,
    cpython: String,
    outcome: String,
    record: Vec<u8>,
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/outcomes.tsv")
}

fn cases() -> Vec<Case> {
    let text = fs::read_to_string(path()).expect("the table is there");
    let lines = text.lines().skip(1).map(|line| {
        let columns: Vec<_> = line.split('\t').collect();
        let [name, cpython, outcome, record] = columns[..] else { panic!("four columns: {line}") };
        let [name, cpython, outcome] = [name, cpython, outcome].map(str::to_owned);
        Case { name, cpython, outcome, record: unescape(record) }
    });
    lines.collect()
}

/// `\xNN`, `\t`, `\n`, `\r` and `\\`; all else stands for itself.
fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        bytes.push(match (first, rest.first()) {
            (b'\\', Some(b'x')) => {
                let hex = str::from_utf8(&rest[1..3]).expect("hexadecimal digits");
                rest = &rest[3..];
                u8::from_str_radix(hex, 16).expect("hexadecimal digits")
            }
            (b'\\', Some(escape)) => {
                rest = &rest[1..];
                match escape {
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b'\\' => b'\\',
                    other => panic!("\\{} in {text}", char::from(*other)),
                }
            }
            (byte, _) => *byte,
        });
    }
    bytes
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b'\\' => text.push_str(r"\\"),
            b'\t' => text.push_str(r"\t"),
            b'\n' => text.push_str(r"\n"),
            b'\r' => text.push_str(r"\r"),
            b' '..=b'~' => text.push(char::from(*byte)),
            byte => write!(text, "\\x{byte:02x}").expect("a string takes everything"),
        }
        text
    })
}

fn outcome(record: &[u8]) -> &'static str {
    match Decoder::new(1 << 20).decode(record) {
        Ok(_) => "accepted",
        Err(error) => error.reason.as_str(),
    }
}

#[test]
fn every_text_has_the_outcome_of_the_table() {
    let cases = cases();
    if env::var_os("UPDATE_GOLDEN").is_some() {
        let header = "name\tcpython\toutcome\trecord\n".to_owned();
        let table = cases.iter().fold(header, |mut table, Case { name, cpython, record, .. }| {
            let (outcome, record) = (outcome(record), escape(record));
            writeln!(table, "{name}\t{cpython}\t{outcome}\t{record}").expect("a string takes everything");
            table
        });
        fs::write(path(), table).expect("the table can be written");
        return;
    }
    assert!(cases.len() > 400, "{}", cases.len());
    let wrong = cases.iter().filter(|case| case.outcome != outcome(&case.record));
    let wrong: Vec<_> =
        wrong.map(|case| format!("{}: {}, not {}", case.name, outcome(&case.record), case.outcome)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn cpython_says_the_same_but_where_the_contract_is_stricter_or_wider() {
    for Case { name, cpython, outcome, .. } in cases() {
        let expected = match (outcome.as_str(), cpython.as_str()) {
            // Nesting is bounded here, and there by the stack.
            ("too_deep", _) => continue,
            // CPython refuses integers of more than 4,300 digits; the contract takes any.
            ("accepted", "refused") if name == "i_number_int_of_5000_digits" => continue,
            (_, "object") => "accepted",
            (_, "no object") => "not_an_object",
            (_, "no utf-8") => "invalid_utf8",
            _ => "invalid_json",
        };
        assert_eq!(outcome, expected, "{name}");
        if name.starts_with("y_") {
            assert_eq!(outcome, "accepted", "{name}");
        }
        if name.starts_with("n_") {
            assert_ne!(outcome, "accepted", "{name}");
        }
    }
}

#[test]
fn a_value_that_is_read_has_the_outcome_of_one_that_is_skipped() {
    let mut compared = 0;
    for Case { name, outcome: expected, record, .. } in cases() {
        let Some(value) = record.strip_prefix(FIELD).and_then(|rest| rest.strip_suffix(b"}")) else { continue };
        for (before, after) in READ_FIELDS {
            let read = [before.as_bytes(), value, after.as_bytes()].concat();
            assert_eq!(outcome(&read), expected, "{name} in {}", String::from_utf8_lossy(&read));
            compared += 1;
        }
    }
    assert!(compared > 1_000, "{compared}");
}
