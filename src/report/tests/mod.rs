//! Merging, and what is refused (contract.md section 6).

use super::*;

mod run_view;
mod verdict;

fn bundle(id: &str, identity: &str, ttft: &str) -> String {
    format!(
        r#"{{"session_id":"{id}","request_metrics":[{{"session_id":"{id}"{identity},"ttft_ms":{ttft}}}],
            "session_metrics":{{"session_id":"{id}"{identity},"stream_ttft_ms":{ttft}}},
            "session":{{"run_id":null,"end_reason":"closed"}}}}"#
    )
}

fn report(bundles: &[String]) -> Report {
    let mut report = Report::default();
    for bundle in bundles {
        report.add_bundle(bundle).expect("a bundle");
    }
    report
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::from_slice(&report.to_json()).expect("JSON")
}

const SAMPLE: &str = r#","split":"test","sample_id":7"#;

#[test]
fn rows_of_a_sample_that_comes_in_again_are_replaced() {
    let old = report(&[bundle("a", SAMPLE, "1"), bundle("b", SAMPLE, "2"), bundle("c", "", "3")]);
    let existing = Report::parse(str::from_utf8(&old.to_json()).expect("UTF-8")).expect("a report");
    let merged = json(&report(&[bundle("d", SAMPLE, "10")]).merge_into(existing));
    let ids: Vec<_> =
        merged["duplex_session_metrics"].as_array().expect("rows").iter().map(|r| &r["session_id"]).collect();
    assert_eq!(ids, ["c", "d"]);
    assert_eq!(merged["duplex_stream_ttft_ms"]["mean"], 6.5);
    assert_eq!(merged["num_duplex_response_ttft_ms_samples"], 2);
}

#[test]
fn rows_without_an_identity_are_kept_and_appended_to() {
    for no_identity in [
        "",
        r#","split":"test""#,
        r#","split":"test","sample_id":null"#,
        r#","split":"test","sample_id":"""#,
        r#","split":"","sample_id":7"#,
        r#","split":"","sample_id":"""#,
    ] {
        let merged = report(&[bundle("b", no_identity, "2")]).merge_into(report(&[bundle("a", no_identity, "1")]));
        assert_eq!((merged.sessions(), merged.requests()), (2, 2), "{no_identity}");
    }
}

#[test]
fn a_sample_that_comes_in_again_without_rows_has_none_any_more() {
    let old = report(&[bundle("a", SAMPLE, "1"), bundle("b", "", "2")]);
    let without_rows = format!(r#"{{"request_metrics":[],"session_metrics":{{"session_id":"c"{SAMPLE}}}}}"#);
    let merged = json(&report(&[without_rows]).merge_into(old));
    let ids = |rows: &str| {
        let rows = merged[rows].as_array().expect("rows").iter();
        rows.map(|row| row["session_id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (ids("duplex_request_metrics"), ids("duplex_session_metrics")),
        (vec!["b".into()], vec!["b".into(), "c".into()])
    );
}

#[test]
fn an_existing_report_is_read_as_python_writes_it() {
    let existing = r#"{"duplex_request_metrics": [{"ttft_ms": NaN, "rtf": Infinity, "note": "NaN"}, {"ttft_ms": 5.0}],
        "duplex_session_metrics": null, "request_rate": Infinity, "loads": {"a": [-Infinity, 1.10]}, "num_prompts": 3}"#;
    let merged = json(&report(&[bundle("a", "", "7")]).merge_into(Report::parse(existing).expect("a report")));
    assert_eq!(
        merged["duplex_request_metrics"],
        serde_json::json!([
            {"ttft_ms": null, "rtf": null, "note": "NaN"}, {"ttft_ms": 5.0}, {"session_id": "a", "ttft_ms": 7}
        ])
    );
    assert_eq!(merged["num_duplex_response_ttft_ms_samples"], 2);
    assert_eq!(merged["mean_duplex_response_ttft_ms"], 6.0);
    assert_eq!(merged["duplex_session_metrics"].as_array().map(Vec::len), Some(1));
    assert_eq!((&merged["request_rate"], &merged["num_prompts"]), (&serde_json::Value::Null, &serde_json::json!(3)));
    assert_eq!(merged["loads"], serde_json::json!({"a": [null, 1.1]}));
}

#[test]
fn stale_distributions_go_and_foreign_keys_stay() {
    let existing = r#"{"model":"m","duplex_stream_rtf":{"count":9},"p99_duplex_client_ttft_ms":1,"num_prompts":3}"#;
    let merged = json(&Report::default().merge_into(Report::parse(existing).expect("a report")));
    let expected = serde_json::json!(
        {"duplex_request_metrics":[],"duplex_session_metrics":[],"model":"m","num_prompts":3}
    );
    assert_eq!(merged, expected);
}

#[test]
fn what_is_no_report_says_why() {
    for (file, expected) in [
        ("{", "it is no JSON"),
        ("[]", "not an object"),
        (r#"{"duplex_request_metrics":{}}"#, "`duplex_request_metrics` is not a list"),
        (r#"{"duplex_session_metrics":[{},[]]}"#, "`duplex_session_metrics` has an entry 1 that is not an object"),
    ] {
        let e = Report::parse(file).expect_err("refused").to_string();
        assert!(e.contains(expected), "{file}: {e}");
    }
    assert!(Report::default().add_bundle("{}").is_err());
}
