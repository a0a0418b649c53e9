//! The cases: what is on the partition beside the traffic of the others.

use std::fmt::Write;

use crate::partition::Outcome;

/// One way to do harm.
pub struct Case {
    pub name: &'static str,
    pub what: &'static str,
    /// How many records it has.
    pub records: u64,
    /// The key and the value of its `n`th record.
    pub record: fn(u64, &mut String, &mut String),
    /// Whether what was done to it is told, as it must be.
    pub expects: fn(&Outcome) -> bool,
}

pub const SMALL: Case = Case { name: "small flood", records: 300_000, ..CASES[0] };

pub const CASES: [Case; 13] = [
    Case {
        name: "keys",
        what: "10 million session keys, an event each",
        records: 10_000_000,
        record: |n, key, value| {
            set(key, format_args!("flood-{n}"));
            value.push_str(r#"{"type":"session.created","session":{"model":"m"}}"#);
        },
        expects: |outcome| outcome.evicted > outcome.records / 2 && outcome.evicted == outcome.truncated,
    },
    Case {
        name: "talking keys",
        what: "250,000 session keys, 8 events each",
        records: 2_000_000,
        record: |n, key, value| {
            // A thousand of them talk at once.
            let session = n / 8_000 * 1000 + n % 1000;
            set(key, format_args!("flood-{session}"));
            value.push_str(r#"{"type":"response.speak"}"#);
        },
        expects: |outcome| outcome.evicted > 100_000 && outcome.evicted == outcome.truncated,
    },
    Case {
        name: "closed",
        what: "2 million sessions that open and close",
        records: 4_000_000,
        record: |n, key, value| {
            set(key, format_args!("flood-{}", n / 2));
            set(value, format_args!(r#"{{"type":"session.{}"}}"#, if n % 2 == 0 { "created" } else { "closed" }));
        },
        expects: |outcome| outcome.markers_evicted > 1_000_000,
    },
    Case {
        name: "responses",
        what: "a session with 1 million responses",
        records: 2_000_000,
        record: |n, key, value| {
            key.push_str("hoard");
            let kind = if n % 2 == 0 { "response.created" } else { "response.done" };
            set(value, format_args!(r#"{{"type":"{kind}","response":{{"id":"r{}","status":"completed"}}}}"#, n / 2));
        },
        expects: |outcome| outcome.truncated == 1,
    },
    Case {
        name: "hoards",
        what: "40 sessions with 50,000 responses each",
        records: 2_000_000,
        record: |n, key, value| {
            set(key, format_args!("hoard-{}", n % 40));
            set(value, format_args!(r#"{{"type":"response.created","response_id":"r{}"}}"#, n / 40));
        },
        expects: |outcome| outcome.truncated == 40 && outcome.evicted > 20,
    },
    Case {
        name: "talking hoards",
        what: "200 sessions with 2,500 responses each, that talk too",
        records: 2_000_000,
        record: |n, key, value| {
            set(key, format_args!("hoard-{}", n % 200));
            match n / 200 % 4 {
                0 => set(value, format_args!(r#"{{"type":"response.created","response_id":"r{}"}}"#, n / 800)),
                _ => value.push_str(r#"{"type":"response.speak"}"#),
            }
        },
        expects: |outcome| outcome.evicted > 50 && outcome.evicted <= outcome.truncated,
    },
    Case {
        name: "packets",
        what: "a response with 10 million audio packets",
        records: 10_000_000,
        record: |n, key, value| {
            key.push_str("long");
            value.push_str(match n {
                0 => r#"{"type":"collector.stream_start"}"#,
                1 => r#"{"type":"response.created","response_id":"r"}"#,
                _ => r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAAAAAA"}"#,
            });
        },
        expects: |outcome| outcome.truncated == 0 && outcome.evicted == 0,
    },
    Case {
        name: "held",
        what: "5,000 sessions whose start never comes, 500 facts each",
        records: 2_500_000,
        record: |n, key, value| {
            set(key, format_args!("held-{}", n % 5000));
            let text =
                r#"{"type":"response.output_text.delta","response_id":"r","delta":"x","metadata":{"stage_metrics":"#;
            set(value, format_args!(r#"{text}{{"0":{{"vllm_itls_ms":[1,2,3,4,5,6,7,8]}}}}}}}}"#));
        },
        expects: |outcome| outcome.evicted > 500 && outcome.evicted <= outcome.truncated,
    },
    Case {
        name: "ids",
        what: "3,000 ids of 1 MB, of sessions, responses and codes",
        records: 3000,
        record: |n, key, value| {
            let long = "x".repeat(1 << 20);
            match n % 3 {
                0 => (set(key, format_args!("{n}{long}")), value.push_str(r#"{"type":"session.created"}"#)).1,
                1 => {
                    key.push_str("ids");
                    set(value, format_args!(r#"{{"type":"response.created","response_id":"{n}{long}"}}"#));
                }
                _ => {
                    key.push_str("ids");
                    set(value, format_args!(r#"{{"type":"error","error":{{"code":"{n}{long}"}}}}"#));
                }
            }
        },
        expects: |outcome| outcome.truncated == 1 && outcome.dead_letters == 1000,
    },
    Case {
        name: "stages",
        what: "400 stage maps with 100,000 stages",
        records: 400,
        record: |n, key, value| {
            key.push_str("stages");
            set(
                value,
                format_args!(r#"{{"type":"response.created","response_id":"r{n}","vllm_omni":{{"stage_metrics":{{"#),
            );
            for stage in 0..100_000 {
                let comma = if stage > 0 { "," } else { "" };
                write!(value, r#"{comma}"{stage}":{{"vllm_ttft_ms":{n}}}"#).expect("memory");
            }
            value.push_str("}}}");
        },
        expects: |outcome| outcome.truncated == 1,
    },
    Case {
        name: "intervals",
        what: "200 interval lists with 1 million values",
        records: 200,
        record: |n, key, value| {
            key.push_str("intervals");
            let itls = "1.25,".repeat(1_000_000);
            let stages = format!(r#"{{"stage_metrics":{{"0":{{"vllm_itls_ms":[{itls}1]}}}}}}"#);
            set(value, format_args!(r#"{{"type":"response.created","response_id":"r{n}","vllm_omni":{stages}}}"#));
        },
        expects: |outcome| outcome.truncated == 1,
    },
    Case {
        name: "codes",
        what: "1 million error codes, all different",
        records: 1_000_000,
        record: |n, key, value| {
            key.push_str("codes");
            set(value, format_args!(r#"{{"type":"error","error":{{"code":"code-{n}"}}}}"#));
        },
        expects: |outcome| outcome.truncated == 1,
    },
    Case {
        name: "unreadable",
        what: "100,000 records of 10 kB that are no JSON",
        records: 100_000,
        record: |_, key, value| {
            key.push_str("no json");
            value.extend(std::iter::repeat_n('[', 10_000));
        },
        expects: |outcome| outcome.dead_letters == 100_000,
    },
];

fn set(text: &mut String, to: std::fmt::Arguments<'_>) {
    text.write_fmt(to).expect("memory");
}
