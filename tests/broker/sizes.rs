//! Records as large as a peer may make them, on a broker with Kafka's own limits: nothing stops, and no row is lost.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::{Duration, Instant};

use duplex_collector::cli::capture::CapturedRecord;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use serde_json::Value;

use crate::service::{Deployment, Shape};
use crate::topics::{Judge, Stored, create_topics, event, send_all};
use crate::wait::until_true;
use crate::{cluster, deployment, expected};

/// Kafka's `max.message.bytes`, which no record of the service may exceed.
const KAFKA_DEFAULT: usize = 1_048_588;
/// The exit code of a configuration that can't work.
const BAD_CONFIGURATION: i32 = 78;

/// `max.message.bytes` of one of the deployment's topics, as an operator sets it.
fn set_limit(deployment: &Deployment, kind: &str, bytes: usize) {
    let client = ClientConfig::new().set("bootstrap.servers", &deployment.bootstrap).clone();
    let admin: AdminClient<DefaultClientContext> = client.create().expect("an admin client");
    let (topic, bytes) = (deployment.topic(kind), bytes.to_string());
    let mut set = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("max.message.bytes", &bytes);
    if kind == "changelog" {
        // All that is set is replaced.
        set = set.set("cleanup.policy", "compact");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let set = runtime.block_on(admin.alter_configs([&set], &AdminOptions::new())).expect("the broker answers");
    assert!(set.iter().all(Result::is_ok), "{set:?}");
}

/// The bundles by session, put together of their parts.
fn put_together(records: &[Stored]) -> BTreeMap<String, Value> {
    let mut bundles: BTreeMap<String, Value> = BTreeMap::new();
    let mut missing: BTreeMap<String, u64> = BTreeMap::new();
    for record in records {
        let key = record.key.clone().expect("a bundle has a key");
        let mut part: Value = serde_json::from_slice(&record.value).expect("JSON");
        let (nth, of) = (part["part"].as_u64().unwrap_or(0), part["parts"].as_u64().unwrap_or(1));
        if nth > 0 {
            let whole = bundles.get_mut(&key).expect("its first part");
            for list in ["request_metrics", "responses"] {
                let elements = part[list].as_array_mut().expect("a list");
                whole[list].as_array_mut().expect("a list").append(elements);
            }
            *missing.get_mut(&key).expect("its first part") -= 1;
            continue;
        }
        let keys = part.as_object_mut().expect("an object");
        keys.remove("part");
        keys.remove("parts");
        missing.insert(key.clone(), of - 1);
        assert!(bundles.insert(key.clone(), part).is_none(), "two bundles of {key}");
    }
    assert!(missing.values().all(|missing| *missing == 0), "{missing:?}");
    bundles
}

fn json_of(bundles: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Value> {
    bundles.iter().map(|(id, json)| (id.clone(), serde_json::from_slice(json).expect("JSON"))).collect()
}

/// A session with so many responses of so many tokens, an event a second and more.
fn session(key: &str, responses: usize, tokens: usize, ms_a_response: u64) -> Vec<CapturedRecord> {
    let began = expected::now() - Duration::from_millis(ms_a_response * (responses as u64 + 10));
    // Of values that do not repeat: what compresses well, every topic takes.
    let mut numbers = numbers();
    let mut next = || {
        let number = numbers.next().expect("without end");
        format!("{}.{:013}", 1 + number % 97, (number >> 20) % 10_000_000_000_000)
    };
    let mut values = vec![(0, r#"{"type":"session.created","session":{"model":"m"}}"#.to_owned())];
    values.push((1, r#"{"type":"collector.stream_start"}"#.to_owned()));
    for n in 0..responses {
        let at = ms_a_response * (n as u64 + 1);
        let itls = (0..tokens).map(|_| next()).collect::<Vec<_>>().join(",");
        let stages = format!(
            r#"{{"0":{{"final_output_type":"text","num_tokens_out":{tokens},"vllm_ttft_ms":40.5,"vllm_itls_ms":[{itls}]}},"1":{{"final_output_type":"audio","output_unit_count":3}}}}"#
        );
        values.push((at, format!(r#"{{"type":"response.created","response_id":"resp-{n}"}}"#)));
        values.push((
            at + 300,
            format!(r#"{{"type":"response.output_text.delta","response_id":"resp-{n}","delta":"x"}}"#),
        ));
        values.push((
            at + 400,
            format!(r#"{{"type":"response.output_audio.delta","response_id":"resp-{n}","delta":"AAAAAAAA"}}"#),
        ));
        values.push((
            at + 500,
            format!(
                r#"{{"type":"response.done","response":{{"id":"resp-{n}","status":"completed"}},"vllm_omni":{{"stage_metrics":{stages}}}}}"#
            ),
        ));
    }
    values.push((ms_a_response * (responses as u64 + 1), r#"{"type":"session.closed","reason":"done"}"#.to_owned()));
    let at = |(ms, value)| CapturedRecord { timestamp: Some(began + Duration::from_millis(ms)), ..event(key, value) };
    values.into_iter().map(at).collect()
}

/// Numbers that look like chance.
fn numbers() -> impl Iterator<Item = u64> {
    let step = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
    std::iter::successors(Some(1), step)
}

fn header<'a>(record: &'a Stored, name: &str) -> Option<&'a str> {
    record.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
}

fn run(deployment: &Deployment, arguments: &[&str]) -> Output {
    let mut command = std::process::Command::new(crate::service::BINARY);
    command.args(arguments).arg("--config").arg(deployment.config());
    command.output().expect("the command can be run")
}

#[test]
fn a_key_or_headers_as_large_as_a_record_may_be_make_a_dead_letter_and_hold_nobody_up() {
    let deployment = deployment("large");
    let long_key = event(&"k".repeat(1_048_400), "{}");
    let headers = (0..1024).map(|n| (format!("h-{n}"), Some(vec![b'v'; 1010]))).collect();
    let large_headers = CapturedRecord { headers, ..event("s", "no JSON") };
    let mut records = vec![long_key, large_headers];
    records.extend(session("well", 3, 5, 100));
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "bundles").read_until(1);
    let mut judge = Judge::of(&deployment, "dead-letters");
    judge.read_until(2);
    let log = service.log();
    let (status, took) = service.terminate();
    assert!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}: {log}");
    assert!(log.contains("dead letter is too large for its topic and is cut"), "{log}");

    let with = |name: &str| judge.records.iter().find(|letter| header(letter, name).is_some()).expect(name);
    let of_key = with("duplex.dead_letter.key_bytes");
    assert_eq!(header(of_key, "duplex.dead_letter.key_bytes"), Some("1048400"));
    assert_eq!(header(of_key, "duplex.dead_letter.payload_bytes"), Some("2"));
    assert_eq!(of_key.key.as_deref(), Some(&*"k".repeat(1024)));
    let of_headers = with("duplex.dead_letter.headers");
    assert_eq!(header(of_headers, "duplex.dead_letter.headers"), Some("1024"));
    assert_eq!((of_headers.key.as_deref(), of_headers.value.len()), (Some("s"), 0));
    // What is not whole is not sent back.
    let redriven = run(&deployment, &["dead-letters", "redrive", "--all"]);
    let said = String::from_utf8_lossy(&redriven.stdout).into_owned();
    assert!(!redriven.status.success() && said.contains("2 without payload: nothing can be sent back"), "{said}");
}

#[test]
fn the_longest_honest_session_comes_whole_on_a_broker_with_kafkas_defaults() {
    const RESPONSES: usize = 10_000;
    // Its parts go through a queue that can't hold them all.
    let properties = vec![("queue.buffering.max.kbytes", "8192".to_owned())];
    let shape = Shape { properties, sections: "[session]\nmax_duration = \"30h\"", ..Shape::default() };
    let deployment = Deployment::shaped(cluster::shared(), "longest", shape);
    create_topics(&deployment);
    let mut records = session("longest", RESPONSES, 220, 8_640);
    records.extend(session("other", 2, 5, 1_000));
    send_all(&deployment, &records);
    let service = deployment.start_ready("a", &[]);
    let mut judge = Judge::of(&deployment, "bundles");
    until_true("every part is there", || {
        judge.read();
        let parts = judge
            .records
            .iter()
            .find_map(|record| serde_json::from_slice::<Value>(&record.value).expect("JSON")["parts"].as_u64());
        parts.is_some_and(|parts| judge.records.len() as u64 == parts + 1)
    });
    assert!(judge.records.iter().all(|record| record.value.len() < KAFKA_DEFAULT));
    println!("{RESPONSES} responses over 24 h in {} records", judge.records.len() - 1);

    let replayed = expected::replayed(&deployment);
    let bundles = put_together(&judge.records);
    assert_eq!(bundles["longest"]["session"]["truncated"], false);
    for list in ["request_metrics", "responses"] {
        assert_eq!(bundles["longest"][list].as_array().expect("a list").len(), RESPONSES, "{list}");
    }
    assert!(bundles == json_of(&replayed.bundles), "the parts are not those of the whole bundle");

    until_true("the run view has both", || {
        let (_, report) = service.get("/report").expect("the service answers");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let run = &report["runs"][0];
        (run["sessions"].as_u64(), run["responses"].as_u64()) == (Some(2), Some(RESPONSES as u64 + 2))
    });
    assert_eq!(service.metric("duplex_refused_for_size_total"), Some(0.0));
    service.terminate_well();
    let file = deployment.files.path().join("of-topic.json");
    let report = run(&deployment, &["report", "--topic", "--output", file.to_str().expect("UTF-8")]);
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).expect("a report")).expect("JSON");
    let rows = |report: &Value| report["duplex_request_metrics"].as_array().expect("a list").len();
    assert_eq!(rows(&report), rows(&replayed.report));
    for key in ["mean_duplex_response_ttft_ms", "duplex_stream_rtf", "num_duplex_response_ttfp_ms_samples"] {
        assert_eq!(report[key], replayed.report[key], "{key}");
    }
}

#[test]
fn limits_that_are_lowered_while_it_runs_make_records_smaller_and_end_nothing() {
    // A queue that is full is not waited for once a record was refused.
    let properties = vec![("queue.buffering.max.kbytes", "1100".to_owned())];
    let deployment = Deployment::shaped(cluster::shared(), "lowered", Shape { properties, ..Shape::default() });
    create_topics(&deployment);
    let service = deployment.start_ready("a", &[]);
    // Of the same log of the same broker: what is refused there is not always the first record of a batch.
    for (kind, bytes) in [("bundles", 70_000), ("dead-letters", 20_000), ("changelog", 70_000)] {
        set_limit(&deployment, kind, bytes);
    }
    let mut records = session("long", 300, 250, 1_000);
    let unreadable = |n: usize| {
        let text: String = numbers().take(1_000 * (n + 1)).map(|number| format!("{number:016x}")).collect();
        event(&format!("unreadable-{n}"), text)
    };
    records.extend((0..4).map(unreadable));
    send_all(&deployment, &records);
    let mut letters = Judge::of(&deployment, "dead-letters");
    letters.read_until(4);
    let mut judge = Judge::of(&deployment, "bundles");
    let began = Instant::now();
    until_true("every part is there", || {
        judge.read();
        let first = judge.records.first().map(|record| serde_json::from_slice::<Value>(&record.value).expect("JSON"));
        first.is_some_and(|part| part["parts"].as_u64() == Some(judge.records.len() as u64))
    });
    assert!(put_together(&judge.records) == json_of(&expected::replayed(&deployment).bundles));
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}: something waited in vain", began.elapsed());
    let kept: Vec<_> = letters.records.iter().map(|letter| letter.value.len()).collect();
    assert!(kept.contains(&0), "{kept:?}");
    let refused = service.metric("duplex_refused_for_size_total").expect("a metric");
    println!("{refused} transactions were refused, then: {} records of the bundle", judge.records.len());
    assert!(refused > 0.0);
    let log = service.log();
    assert!(log.contains("raise max.message.bytes of the topic"), "{log}");
    let (status, took) = service.terminate();
    assert!(status.success() && took < Duration::from_secs(5), "{status} after {took:?}");
}

#[test]
fn a_changelog_that_can_not_take_a_response_is_waited_for_and_refused_at_the_next_start() {
    let deployment = deployment("small-changelog");
    let service = deployment.start_ready("a", &[]);
    set_limit(&deployment, "changelog", 20_000);
    // Its snapshot has eight bytes of each.
    let records = session("large", 1, 10_000, 1_000);
    send_all(&deployment, &records);
    until_true("it was refused again and again", || service.metric("duplex_refused_for_size_total") >= Some(9.0));
    let (status, took) = service.terminate();
    assert!(status.success() && took < Duration::from_secs(10), "{status} after {took:?}");

    let (status, log) = deployment.start("a", &[]).wait_until_ended();
    assert_eq!(status.code(), Some(BAD_CONFIGURATION), "{log}");
    assert!(log.contains("has max.message.bytes=20000, and one record of it may need"), "{log}");
    set_limit(&deployment, "changelog", KAFKA_DEFAULT);
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "bundles").read_until(1);
    service.terminate_well();
    let bundles = put_together(&Judge::all_of(&deployment, "bundles"));
    assert!(bundles == json_of(&expected::replayed(&deployment).bundles));
}
