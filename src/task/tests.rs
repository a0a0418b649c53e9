//! The life of sessions in a partition, in virtual time (contract.md sections 1 and 7).

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::collector::{EndReason, Limits, Settings};
use crate::ids::{Offset, Partition, TopicPartition};
use crate::time::Timestamp;
use crate::wire::{DeadLetterReason, EventClass};

mod cost;
mod eviction;
mod reuse;
mod sizes;
mod time;
mod torn;

/// A task with a producer's hand on it: offsets count up, time is told.
struct Bench {
    task: PartitionTask,
    /// The changelog as it stands: what was written, and what that comes to.
    log: Vec<ChangelogEntry>,
    state: ChangelogState,
    offset: i64,
    now: i64,
}

const WALL: Timestamp = Timestamp(10_000_000_000);

impl Bench {
    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let task = PartitionTask::new(source(), Offset(0), Arc::new(settings));
        Self { task, log: Vec::new(), state: ChangelogState::default(), offset: 0, now: 1_000_000 }
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = 1_000_000 + (seconds * 1000.0) as i64;
        self
    }

    fn event(&mut self, session: &str, json: &str) -> &mut Self {
        self.record(Some(session.as_bytes()), Some(json.as_bytes()), Vec::new())
    }

    fn record(&mut self, key: Option<&[u8]>, value: Option<&[u8]>, headers: Vec<Header<'_>>) -> &mut Self {
        let timestamp = Some(Timestamp(self.now));
        let record = Record { partition: Partition(0), offset: Offset(self.offset), timestamp, key, value, headers };
        self.task.process(&record, WALL);
        self.offset += 1;
        self
    }

    fn silence(&mut self, seconds: u64) -> &mut Self {
        let reading = self.task.reading().expect("a record was read");
        self.task.advance(reading, Duration::from_secs(seconds), WALL);
        self
    }

    /// Commits; the changelog is kept for [`Self::restart`].
    fn commit(&mut self) -> CommitBatch {
        let batch = self.task.prepare_commit().expect("something to commit");
        for entry in &batch.changelog {
            self.state.apply(&entry.key, entry.value.as_deref()).expect("a changelog that can be read");
        }
        self.log.extend_from_slice(&batch.changelog);
        batch
    }

    /// The next process, with what the changelog says.
    fn restart(&mut self, settings: Settings) {
        let state = std::mem::take(&mut self.state);
        for entry in &self.log {
            self.state.apply(&entry.key, entry.value.as_deref()).expect("a changelog that can be read");
        }
        let next_offset = self.task.next_offset();
        self.task = PartitionTask::restore(source(), next_offset, state, Arc::new(settings)).expect("restores");
    }
}

fn source() -> TopicPartition {
    TopicPartition { topic: "duplex.events".into(), partition: Partition(0) }
}

fn ends(batch: &CommitBatch) -> Vec<(String, EndReason)> {
    batch.bundles.iter().map(|bundle| (bundle.session_id.to_string(), bundle.end_reason)).collect()
}

fn json(bundle: &Bundle) -> Value {
    serde_json::from_slice(&bundle.json).expect("a bundle is JSON")
}

const CREATED: &str = r#"{"type":"session.created"}"#;
const CLOSED: &str = r#"{"type":"session.closed","reason":"client_close"}"#;
const SPEAK: &str = r#"{"type":"response.speak"}"#;

#[test]
fn a_closed_session_waits_for_stragglers_and_then_gives_one_bundle() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).at(1.0).event("a", CLOSED).at(1.9).event("a", SPEAK);
    assert_eq!(bench.commit().bundles, []);
    bench.at(2.0).event("b", CREATED);
    let batch = bench.commit();
    assert_eq!(ends(&batch), [("a".into(), EndReason::Closed)]);
    let bundle = json(&batch.bundles[0]);
    assert_eq!(bundle["session"]["close_reason"], "client_close");
    assert_eq!((&bundle["session"]["events"], &bundle["session"]["late_events"]), (&3.into(), &1.into()));
    assert_eq!((&bundle["source"]["first_offset"], &bundle["source"]["last_offset"]), (&0.into(), &2.into()));
}

#[test]
fn an_event_after_the_bundle_is_late_and_opens_nothing() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("a", CLOSED).at(5.0).event("a", SPEAK);
    let batch = bench.commit();
    assert_eq!(batch.counts.events[&(EventClass::Response, Outcome::Late)], 1);
    assert_eq!(bench.task.open_sessions(), 0);
}

#[test]
fn a_late_event_is_late_after_a_restart_too() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("a", CLOSED).silence(2);
    assert_eq!(bench.commit().bundles.len(), 1);
    bench.restart(Settings::default());
    bench.at(30.0).event("a", SPEAK);
    assert_eq!(bench.commit().counts.events[&(EventClass::Response, Outcome::Late)], 1);
}

#[test]
fn a_marker_is_forgotten_after_its_retention() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("a", CLOSED).silence(2);
    bench.commit();
    bench.silence(601).at(700.0).event("a", SPEAK);
    assert_eq!(bench.commit().counts.sessions_opened, 1);
}

#[test]
fn session_created_opens_a_finished_id_anew() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).event("a", CLOSED).at(5.0).event("a", CREATED).event("a", CLOSED).silence(2);
    let batch = bench.commit();
    assert_eq!(ends(&batch), [("a".into(), EndReason::Closed), ("a".into(), EndReason::Closed)]);
    assert_eq!(json(&batch.bundles[1])["source"]["first_offset"], 2);
}

#[test]
fn a_session_without_events_ends_idle_when_its_topic_falls_silent() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).silence(359);
    assert_eq!(bench.commit().bundles, []);
    bench.silence(1);
    assert_eq!(ends(&bench.commit()), [("a".into(), EndReason::IdleTimeout)]);
}

#[test]
fn an_event_keeps_its_session_from_ending_idle() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).at(200.0).event("a", SPEAK).at(500.0).event("a", SPEAK);
    assert_eq!(bench.commit().bundles, []);
}

#[test]
fn silence_before_a_restart_counts_after_it() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED).silence(300);
    bench.commit();
    bench.restart(Settings::default());
    bench.silence(60);
    assert_eq!(ends(&bench.commit()), [("a".into(), EndReason::IdleTimeout)]);
}

#[test]
fn a_long_silence_is_recorded_although_nothing_is_read() {
    let mut bench = Bench::new();
    bench.at(0.0).event("a", CREATED);
    bench.commit();
    bench.silence(9);
    assert!(bench.task.prepare_commit().is_none(), "an empty transaction must not be committed");
    bench.silence(1);
    let batch = bench.commit();
    assert_eq!(batch.changelog.len(), 1);
}

#[test]
fn a_session_ends_at_its_maximum_duration() {
    let mut bench = Bench::new();
    for at in 0..=72 {
        bench.at(f64::from(at) * 300.0).event("a", SPEAK);
    }
    assert_eq!(ends(&bench.commit()), [("a".into(), EndReason::MaxDuration)]);
}

#[test]
fn a_timestamp_from_the_future_ends_nobody() {
    let mut bench = Bench::new();
    bench.now = WALL.0;
    bench.event("a", CREATED);
    bench.now = i64::MAX;
    bench.event("b", CREATED);
    assert_eq!(bench.commit().bundles, []);
    assert_eq!(bench.task.open_sessions(), 2);
}

#[test]
fn a_capture_ends_every_open_session() {
    let mut bench = Bench::new();
    bench.event("b", CREATED).event("a", CREATED).event("c", CLOSED);
    bench.task.end_of_input();
    let expected = [("a", EndReason::EndOfInput), ("b", EndReason::EndOfInput), ("c", EndReason::Closed)];
    assert_eq!(ends(&bench.commit()), expected.map(|(id, reason)| (id.to_owned(), reason)));
}

#[test]
fn a_record_without_a_key_is_known_by_its_body() {
    let mut bench = Bench::new();
    bench
        .record(None, Some(br#"{"session_id":"a","session":{"id":"b"}}"#), Vec::new())
        .record(None, Some(br#"{"session_id":7,"session":{"id":"b"}}"#), Vec::new())
        .record(None, Some(b"{}"), Vec::new());
    bench.task.end_of_input();
    let batch = bench.commit();
    assert_eq!(ends(&batch).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(batch.dead_letters[0].reason, DeadLetterReason::MissingSessionId);
}

#[test]
fn what_cannot_be_read_is_a_dead_letter_with_everything_it_came_with() {
    let mut bench = Bench::new();
    let headers = vec![Header { name: "h", value: None }];
    bench.record(Some(b"k"), Some(b"nonsense"), headers);
    let batch = bench.commit();
    let [letter] = &batch.dead_letters[..] else { panic!("one dead letter") };
    assert_eq!((letter.reason, letter.offset), (DeadLetterReason::InvalidJson, Offset(0)));
    assert_eq!((letter.key.as_deref(), &letter.payload[..]), (Some(&b"k"[..]), &b"nonsense"[..]));
    assert_eq!(letter.headers, [("h".to_owned(), None)]);
    assert_eq!(batch.next_offset, Offset(1));
}

#[test]
fn every_reason_a_record_can_be_refused_for() {
    let long = "x".repeat(257);
    let at = |value: &'static [u8]| vec![Header { name: "received_at_s", value: Some(value) }];
    let limits = Limits { record_bytes: 100, ..Limits::default() };
    let mut bench = Bench::with(Settings { limits, ..Settings::default() });
    bench
        .record(Some(b"\xff"), Some(b"{}"), Vec::new())
        .record(Some(long.as_bytes()), Some(b"{}"), Vec::new())
        .record(Some(b"k"), Some(br#"{"_client_received_at_s":NaN}"#), Vec::new())
        .record(Some(b"k"), Some(b"{}"), at(b"inf"))
        .record(Some(b"k"), Some(b"{}"), at(b"soon"))
        .record(Some(b"k"), Some(&[b' '; 101]), Vec::new())
        .record(Some(b"k"), Some(b"[]"), Vec::new())
        .record(Some(b"k"), None, Vec::new());
    let batch = bench.commit();
    use DeadLetterReason::*;
    let reasons: Vec<_> = batch.dead_letters.iter().map(|letter| letter.reason).collect();
    let expected =
        [InvalidUtf8, SessionIdTooLong, BadReceiveTime, BadReceiveTime, BadReceiveTime, TooLarge, NotAnObject];
    assert_eq!(reasons, expected);
    assert_eq!((batch.counts.tombstones, bench.task.open_sessions()), (1, 0));
}

#[test]
fn the_receive_time_is_the_headers_then_the_bodys_then_the_records() {
    let header = || vec![Header { name: "received_at_s", value: Some(b"5.5") }];
    for (headers, body, expected) in [
        (header(), r#"{"_client_received_at_s":1}"#, "client_monotonic"),
        (Vec::new(), r#"{"_client_received_at_s":1}"#, "client_monotonic"),
        (Vec::new(), r#"{"_client_received_at_s":"1"}"#, "kafka_timestamp"),
    ] {
        let mut bench = Bench::new();
        bench.record(Some(b"a"), Some(body.as_bytes()), headers);
        bench.task.end_of_input();
        assert_eq!(json(&bench.commit().bundles[0])["session"]["clock"], expected);
    }
    let mut bench = Bench::new();
    bench.event("a", "{}").event("a", r#"{"_client_received_at_s":1}"#);
    bench.task.end_of_input();
    assert_eq!(json(&bench.commit().bundles[0])["session"]["clock"], "mixed");
}

#[test]
fn labels_are_the_first_seen_and_stand_in_the_rows_too() {
    let label = |name, value: &'static str| Header { name, value: Some(value.as_bytes()) };
    let mut bench = Bench::new();
    let created = br#"{"type":"session.created","session":{"model":"from-the-wire"}}"#;
    bench
        .record(Some(b"a"), Some(created), vec![label("run_id", "r1"), label("split", "test"), label("sample_id", "7")])
        .record(Some(b"a"), Some(b"{}"), vec![label("run_id", "r2"), label("model", "from-a-header")])
        .event("a", r#"{"type":"response.created","response_id":"r"}"#)
        .event("a", r#"{"type":"response.output_audio.delta","response_id":"r","delta":"AAAA"}"#);
    bench.task.end_of_input();
    let bundle = json(&bench.commit().bundles[0]);
    assert_eq!((&bundle["session"]["run_id"], &bundle["session"]["model"]), (&"r1".into(), &"from-a-header".into()));
    for place in [&bundle["session"], &bundle["session_metrics"], &bundle["request_metrics"][0]] {
        assert_eq!((&place["split"], &place["sample_id"]), (&"test".into(), &"7".into()));
    }
}

#[test]
fn a_finished_session_leaves_only_its_marker_in_the_changelog() {
    let mut bench = Bench::new();
    bench.event("a", CREATED).event("a", r#"{"type":"response.created","response_id":"r"}"#);
    bench.commit();
    bench.event("a", CLOSED).silence(2);
    bench.commit();
    assert_eq!(bench.state.closed.len(), 1);
    let state = std::mem::take(&mut bench.state);
    assert_eq!(state.into_sessions().count(), 0);
}

#[test]
fn a_jump_in_time_ends_many_sessions_in_more_than_one_batch_and_each_once() {
    let stage = format!(r#"{{"0":{{"vllm_itls_ms":[{}1]}}}}"#, "1.25,".repeat(20_000));
    let mut bench = Bench::new();
    for i in 0..200 {
        let id = format!("s{i:03}");
        bench.event(&id, r#"{"type":"response.created","response_id":"r"}"#);
        let done = format!(r#"{{"type":"response.done","response_id":"r","vllm_omni":{{"stage_metrics":{stage}}}}}"#);
        bench.event(&id, &done);
    }
    bench.commit();
    bench.at(1000.0).event("s199", SPEAK).event("another", SPEAK);
    let mut batches = vec![bench.commit()];
    while bench.task.open_sessions() > 1 {
        bench.silence(0);
        batches.push(bench.commit());
    }
    assert!(batches.len() > 1, "one batch took them all");
    let mut ended: Vec<_> = batches.iter().flat_map(ends).collect();
    ended.sort();
    let expected: Vec<_> = (0..200).map(|i| (format!("s{i:03}"), EndReason::IdleTimeout)).collect();
    assert_eq!(ended, expected);
    // Its time was up before this event, whatever its turn.
    let late: u64 = batches.iter().filter_map(|b| b.counts.events.get(&(EventClass::Response, Outcome::Late))).sum();
    assert_eq!(late, 1);
}

#[test]
fn records_that_a_restored_state_holds_are_not_counted_again() {
    let mut bench = Bench::new();
    bench.event("a", CREATED).event("a", SPEAK);
    bench.commit();
    bench.restart(Settings::default());
    // Without transactions, offsets may be behind the state.
    bench.offset = 0;
    bench.event("a", CREATED).event("a", SPEAK).event("a", SPEAK);
    bench.task.end_of_input();
    let batch = bench.commit();
    assert_eq!(json(&batch.bundles[0])["session"]["speaks"], 2);
    assert_eq!(batch.counts.events[&(EventClass::Response, Outcome::Duplicate)], 1);
}

#[test]
fn a_finished_session_s_measures_go_with_its_bundle_and_tell_when_it_ended() {
    let mut bench = Bench::new();
    bench.at(0.0).event("closed", CREATED).event("silent", CREATED).event("silent", SPEAK);
    bench.at(3.0).event("closed", CLOSED);
    assert_eq!(bench.commit().finished, []);
    bench.at(500.0).event("next", CREATED).event("another", CREATED);
    let batch = bench.commit();
    let ended: Vec<_> = batch
        .bundles
        .iter()
        .zip(&batch.finished)
        .map(|(bundle, session)| (bundle.session_id.as_str(), session.ended_at, session.measures.speaks))
        .collect();
    assert_eq!(ended, [("closed", Timestamp(1_003_000), 0), ("silent", Timestamp(1_360_000), 1)]);
    assert_eq!(bench.at(501.0).event("next", SPEAK).commit().finished, []);
}
