//! What a commit costs: what changed since the last one, however long the session.

use super::*;

const STREAM_START: &str = r#"{"type":"collector.stream_start"}"#;

/// A response as the server sends it, from its first event to its last.
fn response(n: usize) -> Vec<String> {
    let id = format!("resp-{n:05}");
    let mut events = vec![
        format!(r#"{{"type":"response.created","response":{{"id":"{id}"}}}}"#),
        format!(r#"{{"type":"response.output_text.delta","response_id":"{id}","delta":"hello"}}"#),
    ];
    events.extend((1..=4).map(|packet| audio(n, packet)));
    events.push(format!(
        r#"{{"type":"response.done","response":{{"id":"{id}","status":"completed"}},"vllm_omni":{{"stage_metrics":{{"0":{{"num_tokens_out":9,"vllm_itls_ms":[1.5,2.5]}}}}}}}}"#
    ));
    events
}

fn audio(response: usize, packet: usize) -> String {
    format!(
        r#"{{"type":"response.output_audio.delta","response_id":"resp-{response:05}","delta":"AAAA","metadata":{{"audio_duration_ms":{}}}}}"#,
        packet * 200
    )
}

/// Records and bytes of a batch's changelog.
fn cost(batch: &CommitBatch) -> (usize, usize) {
    let bytes = |entry: &ChangelogEntry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len);
    (batch.changelog.len(), batch.changelog.iter().map(bytes).sum())
}

/// What one more packet costs a session after `finished` responses, with one under way.
fn one_more_packet(opening: &[&str], finished: usize, restart: bool) -> (usize, usize) {
    let mut bench = Bench::new();
    for event in opening {
        bench.event("a", event);
    }
    for n in 0..finished {
        for event in response(n) {
            bench.event("a", &event);
        }
    }
    bench.event("a", &response(finished)[0]);
    bench.commit();
    if restart {
        bench.restart(Settings::default());
    }
    bench.event("a", &audio(finished, 1));
    cost(&bench.commit())
}

#[test]
fn a_commit_costs_no_more_after_a_thousand_finished_responses_than_after_one() {
    for restart in [false, true] {
        let [one, thousand] = [1, 1_000].map(|finished| one_more_packet(&[CREATED, STREAM_START], finished, restart));
        // Numbers grow by a byte or two: offsets, counts, indices.
        assert_eq!(one.0, thousand.0, "records");
        assert!(thousand.1 <= one.1 + 16, "{} bytes after one response, {} after a thousand", one.1, thousand.1);
    }
}

#[test]
fn a_commit_costs_no_more_where_no_mark_of_the_stream_start_comes() {
    // The producer's mark has not come, so as many facts wait as there is room for.
    for restart in [false, true] {
        let [few, many] = [20, 1_000].map(|finished| one_more_packet(&[CREATED], finished, restart));
        assert_eq!(few.0, many.0, "records");
        assert!(many.1 <= few.1 + 64, "{} bytes after twenty responses, {} after a thousand", few.1, many.1);
        assert!(few.1 < 1024, "{} bytes", few.1);
    }
}

#[test]
fn facts_that_wait_survive_restarts_and_leave_nothing_behind() {
    let play = |restarts: bool, settles: bool| {
        let mut bench = Bench::new();
        bench.event("a", CREATED);
        let settled = settles.then(|| STREAM_START.to_owned());
        for event in (0..3).flat_map(response).chain(settled).chain(response(3)) {
            bench.event("a", &event);
            bench.commit();
            if restarts {
                bench.restart(Settings::default());
            }
        }
        bench.event("a", CLOSED).silence(2);
        let bundles = bench.commit().bundles;
        let left = std::mem::take(&mut bench.state).into_sessions().count();
        assert_eq!((bundles.len(), left), (1, 0));
        bundles
    };
    for settles in [false, true] {
        assert_eq!(play(true, settles), play(false, settles), "settles: {settles}");
    }
}

#[test]
fn every_record_of_a_finished_session_has_its_tombstone() {
    for opening in [CREATED, STREAM_START] {
        let mut bench = Bench::new();
        let mut kept = std::collections::BTreeSet::new();
        bench.event("a", opening);
        for event in (0..3).flat_map(response) {
            bench.event("a", &event);
            kept.extend(bench.commit().changelog.into_iter().map(|entry| entry.key));
        }
        bench.event("a", CLOSED).silence(2);
        for entry in bench.commit().changelog.iter().filter(|entry| entry.value.is_none()) {
            assert!(kept.remove(&entry.key), "{:?}", entry.key);
        }
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [Key::Checkpoint.encode()]);
    }
}
