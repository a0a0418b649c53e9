//! A run of more sessions than are kept exactly: exact up to the bound, within the stated error past it.

use std::time::Instant;

use duplex_collector::distribution::{Figures, RELATIVE_ERROR, Samples};
use serde_json::Value;

use crate::service::Service;
use crate::topics::{Judge, writer};
use crate::wait::{PATIENCE, until};
use crate::{Deployment, deployment, expected};

/// `run.exact_samples`, by default.
const BOUND: usize = 1_000_000;
const ALL: usize = 1_200_000;

const SERIES: &str = r#"{model="all",run="many",window="all"}"#;

/// Skewed as latencies are, from a few milliseconds to a minute, in an order that is no order.
fn stream_ttft_ms(session: usize) -> f64 {
    let share = (session * 611_953 % ALL) as f64 / ALL as f64;
    (5.0 * 12_000_f64.powf(share * share) * 1000.0).round() / 1000.0
}

fn bundle(session: usize, at: i64) -> String {
    let ttft = stream_ttft_ms(session);
    format!(
        r#"{{"schema_version":1,"session_id":"s-{session}","request_metrics":[{{"response_id":"r","source":"client_monotonic_receive","ttft_ms":{ttft},"ttfp_ms":{ttft},"rtf":0.5,"client_ttft_ms":{ttft},"client_ttfp_ms":{ttft}}}],"session_metrics":{{"stream_ttft_ms":{ttft},"stream_ttfp_ms":{ttft},"stream_rtf":0.5}},"session":{{"run_id":"many","model":"m","end_reason":"closed","last_event_ms":{at}}},"responses":[{{"response_id":"r","status":"completed","ttft_source":"client","ttfp_source":"client","audio_packets":1}}]}}"#
    )
}

fn write(deployment: &Deployment, sessions: std::ops::Range<usize>) {
    let (mut writer, topic) = (writer(deployment), deployment.topic("bundles"));
    let at = expected::now();
    for session in sessions {
        let key = session.to_be_bytes();
        writer.send(&topic, Some(&key), bundle(session, at.0).as_bytes(), Some(at), &[]).expect("queued");
    }
    writer.flush(PATIENCE).expect("the bundles are delivered");
}

/// What the service reports of the run's stream TTFT, once it has so many sessions.
fn reported(service: &Service, sessions: usize) -> Figures {
    until("the run has every session", || {
        (service.metric(&format!("duplex_run_sessions{SERIES}"))? as usize == sessions).then_some(())
    });
    let began = Instant::now();
    let (_, report) = service.get("/report?run=many").expect("an answer");
    let took = began.elapsed();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let memory = service.metric("process_resident_memory_bytes").expect("a gauge") / 1e6;
    println!("{sessions} sessions: {memory:.0} MB resident, /report in {took:?}");
    let part = &report["runs"][0]["parts"][0];
    assert_eq!((&part["model"], &part["window"]), (&"all".into(), &"all".into()));
    serde_json::from_value(part["figures"]["duplex_stream_ttft_ms"].clone()).expect("figures")
}

fn exact(sessions: usize) -> Figures {
    let mut samples: Samples = (0..sessions).map(stream_ttft_ms).collect();
    samples.figures(3).expect("samples")
}

#[test]
fn a_run_is_exact_up_to_the_bound_and_within_the_stated_error_past_it() {
    let deployment = deployment("many");
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "bundles");
    write(&deployment, 0..BOUND);
    assert_eq!(reported(&service, BOUND), exact(BOUND));
    assert_eq!(service.metric(&format!("duplex_distribution_approximate{SERIES}")), Some(0.0));

    write(&deployment, BOUND..ALL);
    let (sketched, exact) = (reported(&service, ALL), exact(ALL));
    assert!(sketched.approximate);
    assert_eq!(service.metric(&format!("duplex_distribution_approximate{SERIES}")), Some(1.0));
    assert_eq!((sketched.count, sketched.max, sketched.mean), (exact.count, exact.max, exact.mean));
    for (sketched, exact) in [(sketched.p50, exact.p50), (sketched.p90, exact.p90), (sketched.p99, exact.p99)] {
        let error = (sketched - exact).abs() / exact;
        println!("{exact} is shown as {sketched}: off by {:.3} %", 100.0 * error);
        assert!(error <= RELATIVE_ERROR, "{exact} became {sketched}");
    }

    // Read anew, all of it at once, it is the same.
    let began = Instant::now();
    let again = deployment.start_ready("b", &[]);
    assert_eq!(reported(&again, ALL), sketched);
    println!("read anew in {:?}", began.elapsed());
    again.terminate_well();
    service.terminate_well();
}
