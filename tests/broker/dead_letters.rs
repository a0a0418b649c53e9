//! Dead letters: counted, shown without their payload, and sent back once.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use duplex_collector::cli::capture::CapturedRecord;
use serde_json::{Value, json};

use crate::service::{BINARY, Deployment};
use crate::topics::{Judge, event, send_all};
use crate::wait::until;
use crate::{deployment, expected};

fn record(key: &str, value: impl Into<Vec<u8>>) -> CapturedRecord {
    CapturedRecord { headers: vec![("run_id".into(), Some(b"nightly".to_vec()))], ..event(key, value) }
}

fn command(deployment: &Deployment, arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("dead-letters").args(arguments).arg("--config").arg(deployment.config());
    command
}

fn dead_letters(deployment: &Deployment, arguments: &[&str]) -> Output {
    command(deployment, arguments).output().expect("the command can be run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_was_too_large_is_sent_back_once_the_limit_is_raised_and_counts_in_its_session() {
    let deployment = deployment("redrive");
    let audio = "QUFB".repeat(100);
    let events = |session: &str| {
        let raw = |value: Value| record(session, value.to_string());
        [
            raw(json!({"type": "session.created", "session": {"model": "m"}})),
            raw(json!({"type": "response.created", "response": {"id": "r"}})),
            raw(json!({"type": "response.output_audio.delta", "response_id": "r", "delta": audio})),
        ]
    };
    let records: Vec<_> = (0..20).flat_map(|n| events(&format!("s-{n}"))).collect();
    send_all(&deployment, &records);
    let small = [("DUPLEX_LIMITS__RECORD_BYTES", "200")];
    let service = deployment.start_ready("a", &small);
    Judge::of(&deployment, "dead-letters").read_until(20);
    service.terminate_well();

    let listed = dead_letters(&deployment, &["list"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let table = text(&listed.stdout);
    println!("{table}");
    let row = table.lines().find(|line| line.contains("too_large")).expect("a row");
    let cells: Vec<_> = row.split(['│', '┆']).map(str::trim).collect();
    assert_eq!(cells[1..5], ["too_large", "20", "0", "0"], "{row}");
    let lines = text(&dead_letters(&deployment, &["list", "--json", "--reason", "too_large"]).stdout);
    let letters: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(letters.len(), 20);
    assert!(!lines.contains(&audio), "a payload was listed");

    let at = letters[0]["at"].as_str().expect("a place");
    let show = |flag: &[&str]| text(&dead_letters(&deployment, &[&["show", at], flag].concat()).stdout);
    assert!(!show(&[]).contains(&audio) && show(&["--with-payload"]).contains(&audio));
    assert_eq!(letters[0]["headers"], json!([["run_id", "nightly"]]));

    let service = deployment.start_ready("a", &[]);
    let one = dead_letters(&deployment, &["redrive", "--at", at]);
    assert_eq!(text(&one.stdout).lines().next(), Some(&*format!("1 sent back to {}", deployment.topic("events"))));
    let rest = dead_letters(&deployment, &["redrive", "--reason", "too_large"]);
    assert!(text(&rest.stdout).starts_with("19 sent back") && text(&rest.stdout).contains("\n1 sent back before"));
    let again = dead_letters(&deployment, &["redrive", "--all"]);
    assert_eq!(again.status.code(), Some(1), "{}", text(&again.stdout));
    assert!(text(&again.stdout).contains("\n20 sent back before, and so not now: --force"), "{}", text(&again.stdout));

    let closed = |session: &str| record(session, json!({"type": "session.closed", "reason": "done"}).to_string());
    send_all(&deployment, &(0..20).map(|n| closed(&format!("s-{n}"))).collect::<Vec<_>>());
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(20);
    service.terminate_well();
    for (session, bundle) in expected::each_once(&judge.records) {
        let bundle: Value = serde_json::from_slice(&bundle).expect("JSON");
        // 300 bytes of 24 kHz 16-bit audio.
        assert_eq!(bundle["request_metrics"][0]["audio_duration_ms"], 6.25, "{session}: {bundle}");
        assert_eq!((&bundle["session"]["run_id"], &bundle["session"]["events"]), (&"nightly".into(), &4.into()));
    }
    let forced = dead_letters(&deployment, &["redrive", "--at", at, "--force"]);
    assert!(forced.status.success() && text(&forced.stdout).starts_with("1 sent back"), "{}", text(&forced.stdout));
}

#[test]
fn a_redrive_that_is_killed_in_the_middle_and_run_again_sends_each_record_once() {
    const LETTERS: usize = 20_000;
    let deployment = deployment("redrive-kill");
    let records: Vec<_> = (0..LETTERS).map(|n| record(&format!("s-{n}"), n.to_string())).collect();
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "dead-letters").read_until(LETTERS);
    service.terminate_well();

    let mut judge = Judge::of(&deployment, "events");
    judge.read_until(LETTERS);
    let mut killed = command(&deployment, &["redrive", "--all"]).spawn().expect("the command can be run");
    until("the first have been sent back", || (judge.read() > LETTERS).then_some(()));
    killed.kill().expect("it runs until it is killed");
    killed.wait().expect("a child");
    let before = Judge::all_of(&deployment, "events").len() - LETTERS;
    assert!(before > 0 && before < LETTERS, "{before} were sent back before the kill");

    let rest = dead_letters(&deployment, &["redrive", "--all"]);
    let said = text(&rest.stdout);
    println!("{before} sent back, kill -9, then: {said}");
    assert_eq!(
        said,
        format!(
            "{} sent back to {}\n{before} sent back before, and so not now: --force sends them again\n",
            LETTERS - before,
            deployment.topic("events")
        )
    );
    let mut times: BTreeMap<_, usize> = BTreeMap::new();
    for record in Judge::all_of(&deployment, "events") {
        *times.entry((record.key, record.partition, record.value, record.timestamp, record.headers)).or_default() += 1;
    }
    // The original and the one that was sent back, the same in everything.
    assert_eq!((times.len(), times.values().filter(|times| **times == 2).count()), (LETTERS, LETTERS));
}
