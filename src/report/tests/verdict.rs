//! The verdict: each thing that is looked at, one step past where it is fine; and what is said where nothing can be judged.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::collector::EndReason;
use crate::distribution::{Bin, Figures};
use crate::report::{Part, PartStatus, Recent, Replica, State, Verdict};
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(1_796_084_323_000);

/// What is judged.
struct Seen {
    status: RunStatus,
    replica: Replica,
}

impl Seen {
    /// Everything as bad as is still fine.
    fn fine() -> Self {
        let figures =
            |p99: f64| Figures { count: 30, mean: 1.0, p50: 1.0, p90: 1.0, p99, max: 1.0, approximate: false };
        let mut part = Part {
            model: ALL.into(),
            window: "5m".into(),
            sessions: 100,
            sessions_by_end_reason: [(EndReason::Closed, 95), (EndReason::Expired, 5)].into(),
            traits: Default::default(),
            responses: 100,
            approximate: false,
            figures: [(Measure::ResponseTtfp, figures(2_000.0)), (Measure::ResponseRtf, figures(1.0))].into(),
        };
        part.traits.sessions_by_stream_start = [("session.created".to_owned(), 1), (BY_APPEND.to_owned(), 3)].into();
        part.traits.sessions_with_clock_faults = 1;
        let bins = [Bin { from: 865.964, to: 1000.0, count: 95 }, Bin { from: 1000.0, to: 1154.78, count: 5 }];
        let view = PartStatus {
            model: ALL.into(),
            window: "5m".into(),
            slot_ms: 5_000,
            end_ms: NOW,
            slots: Vec::new(),
            shapes: BTreeMap::from([(Measure::ResponseTtft.name(), bins.into())]),
        };
        let run = RunSummary { run_id: "r".into(), last_event: Some(NOW - Duration::from_secs(3)), parts: vec![part] };
        let status = RunStatus {
            complete: true,
            current_at_ms: Some(NOW - Duration::from_secs(30)),
            runs: vec!["r".into()],
            runs_not_shown: Some(0),
            run: Some(run),
            windows: vec!["5m".into(), "1h".into()],
            view: Some(view),
            last_sessions: Vec::new(),
        };
        let recent = Recent {
            records: 1_000,
            dead_letters: 10,
            events: 990,
            none_finished_ms: 30 * 60 * 1000 - 1,
            ..Recent::default()
        };
        let (sessions_open, lag_seconds) = (Some(10.0), Some(60.0));
        Self { status, replica: Replica { live: true, ready: true, sessions_open, lag_seconds, recent } }
    }

    fn part(&mut self) -> &mut Part {
        &mut self.status.run.as_mut().expect("a run").parts[0]
    }

    fn bins(&mut self) -> &mut Vec<Bin> {
        let view = self.status.view.as_mut().expect("a view");
        view.shapes.get_mut(Measure::ResponseTtft.name()).expect("a shape")
    }

    /// No session has finished for longer than the shortest window.
    fn is_quiet(&mut self) {
        self.status.run.as_mut().expect("a run").parts.clear();
        self.status.view.as_mut().expect("a view").shapes.clear();
        self.replica.recent = Recent::default();
    }

    fn verdict(&self) -> Verdict {
        Verdict::on(&self.status, &self.replica, NOW)
    }
}

const BY_APPEND: &str = "input_audio_buffer.append";

/// The state and the headline, and the checks that are bad with what was found.
fn told(change: impl FnOnce(&mut Seen)) -> (State, String, Vec<(&'static str, String)>) {
    let mut seen = Seen::fine();
    change(&mut seen);
    let Verdict { state, headline, checks, .. } = seen.verdict();
    let bad = checks.into_iter().filter(|check| check.state == State::Bad);
    (state, headline, bad.map(|check| (check.name, check.value)).collect())
}

#[test]
fn what_is_fine_up_to_its_limit_is_wrong_past_it() {
    assert_eq!(told(|_| {}), (State::Good, "Healthy".into(), vec![]));
    type Change = fn(&mut Seen);
    let cases: [(Change, &str, &str, &str); 14] = [
        (|seen| seen.replica.live = false, "replica", "not live", "This replica is not live"),
        (|seen| seen.replica.ready = false, "replica", "not ready", "This replica is not ready"),
        (|seen| seen.bins()[1].count = 6, "ttft", "5.94 % over 1 s", "Slow first text"),
        (|seen| figures(seen, Measure::ResponseTtfp).p99 = 2_015.0, "ttfp", "p99 2,020 ms", "Slow first audio"),
        (|seen| figures(seen, Measure::ResponseRtf).p99 = 1.02, "rtf", "p99 1.02", "Slower than real time"),
        (|seen| seen.part().sessions += 1, "ends", "5.94 % not closed", "Broken sessions"),
        (
            |seen| seen.part().traits.sessions_truncated = 1,
            "figures",
            "1 session truncated, 1 session with clocks that do not fit",
            "Truncated sessions",
        ),
        (
            |seen| seen.part().traits.sessions_with_clock_faults = 2,
            "figures",
            "2 sessions with clocks that do not fit",
            "Clocks that do not fit together",
        ),
        (
            |seen| seen.replica.recent.dead_letters = 31,
            "dead_letters",
            "31 of 1,000 are dead letters",
            "Records that can't be read",
        ),
        (
            |seen| seen.replica.recent.events_unsupported = 1,
            "events",
            "1 of a shape that is not read, such as response.audio.delta or an envelope",
            "Events of a shape that is not read",
        ),
        (
            |seen| seen.replica.recent.events_of_no_duplex_protocol = 4_711,
            "events",
            "4,711 events, none of a duplex protocol: is topics.events the right topic?",
            "No event is of a duplex protocol",
        ),
        (|seen| seen.replica.lag_seconds = Some(60.1), "lag", "60.1 s", "This replica lags"),
        (
            |seen| seen.replica.recent.none_finished_ms += 1,
            "traffic",
            "10 open here, none finished for 30 min",
            "Sessions are open but none finishes",
        ),
        (
            |seen| seen.status.current_at_ms = Some(NOW - Duration::from_millis(30_001)),
            "reading",
            "not since 00:18:12 UTC",
            "The figures stand still",
        ),
    ];
    for (change, name, value, headline) in cases {
        assert_eq!(told(change), (State::Bad, headline.into(), vec![(name, value.into())]));
    }
    let several = told(|seen| {
        seen.part().sessions_by_end_reason = [(EndReason::IdleTimeout, 100)].into();
        seen.replica.lag_seconds = Some(600.0);
    });
    assert_eq!((several.0, &*several.1), (State::Bad, "Broken sessions, this replica lags"));
}

#[test]
fn few_sessions_may_be_open_for_long() {
    let told = told(|seen| {
        seen.replica.sessions_open = Some(9.0);
        seen.replica.recent.none_finished_ms *= 10;
    });
    assert_eq!(told.1, "Healthy");
}

fn figures(seen: &mut Seen, measure: Measure) -> &mut Figures {
    seen.part().figures.get_mut(&measure).expect("figures")
}

#[test]
fn nothing_is_healthy_that_can_not_be_judged() {
    let since = "00:18:40 UTC";
    assert_eq!(told(Seen::is_quiet), (State::Unknown, format!("No traffic since {since}"), vec![]));
    let days_ago = told(|seen| {
        seen.is_quiet();
        seen.status.run.as_mut().expect("a run").last_event = Some(NOW - Duration::from_secs(3 * 24 * 3600));
    });
    assert_eq!(days_ago.1, "No traffic since 2026-11-28 00:18:43 UTC");
    // The whole run has figures still, but that was then.
    let whole = told(|seen| {
        seen.part().window = ALL.into();
        seen.status.view.as_mut().expect("a view").window = ALL.into();
    });
    assert_eq!(whole, (State::Unknown, format!("No session has finished since {since}"), vec![]));
    let bad_before = told(|seen| {
        figures(seen, Measure::ResponseRtf).p99 = 3.0;
        seen.part().window = ALL.into();
        seen.status.view.as_mut().expect("a view").window = ALL.into();
        seen.replica.recent = Recent::default();
    });
    assert_eq!(bad_before.1, format!("Slower than real time, no traffic since {since}"));

    let of_one_model = told(|seen| {
        seen.part().model = ALL.into();
        seen.status.view.as_mut().expect("a view").model = "m".into();
    });
    assert_eq!(of_one_model.1, "No session of this model in the last 5m");
    // While bundles can't be read, sessions may finish.
    let stale = told(|seen| {
        seen.is_quiet();
        seen.status.current_at_ms = Some(NOW - Duration::from_secs(300));
    });
    assert_eq!(stale.1, "The figures stand still");

    let nothing = |seen: &mut Seen| {
        (seen.status.run, seen.status.view) = (None, None);
        seen.status.runs.clear();
    };
    assert_eq!(told(nothing).1, "No session has finished yet");
    let without_events = |seen: &mut Seen| {
        nothing(seen);
        seen.replica.recent = Recent::default();
    };
    assert_eq!(told(without_events), (State::Unknown, "No traffic yet".into(), vec![]));
    let not_read = |seen: &mut Seen| {
        nothing(seen);
        (seen.status.complete, seen.status.current_at_ms) = (false, None);
    };
    assert_eq!(told(not_read).1, "The bundles topic is being read");
    let wrong_topic = told(|seen| {
        without_events(seen);
        seen.replica.recent.events_of_no_duplex_protocol = 200;
    });
    assert_eq!(wrong_topic.1, "No event is of a duplex protocol");
}

#[test]
fn few_samples_are_no_verdict() {
    let few = |seen: &mut Seen| {
        figures(seen, Measure::ResponseTtfp).count = 29;
        figures(seen, Measure::ResponseTtfp).p99 = 9_000.0;
        figures(seen, Measure::ResponseRtf).count = 29;
        *seen.bins() = vec![Bin { from: 1000.0, to: 1154.78, count: 29 }];
        seen.part().sessions = 29;
        seen.part().sessions_by_end_reason = [(EndReason::IdleTimeout, 29)].into();
        seen.replica.recent.dead_letters = 29;
        seen.replica.recent.records = 29;
        seen.replica.recent.events_of_no_duplex_protocol = 29;
    };
    assert_eq!(told(few), (State::Unknown, "Too few responses to judge".into(), vec![]));
    let mut seen = Seen::fine();
    few(&mut seen);
    let values = |verdict: Verdict| {
        let of =
            |check: crate::report::Check| ["ttft", "ttfp", "rtf", "ends"].contains(&check.name).then_some(check.value);
        verdict.checks.into_iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        values(seen.verdict()),
        ["29 of 30 responses", "29 of 30 responses", "29 of 30 responses", "29 of 30 sessions"]
    );
    let one_is_judged = told(|seen| {
        few(seen);
        figures(seen, Measure::ResponseRtf).count = 30;
    });
    assert_eq!(one_is_judged.1, "Healthy");
}

#[test]
fn a_note_says_where_the_streams_start_and_how_they_could_start_better() {
    let mut seen = Seen::fine();
    let start =
        "The stream of a session starts at input_audio_buffer.append in 75 %, session.created in 25 % of sessions.";
    assert_eq!(seen.verdict().notes[0], start);
    seen.part().traits.sessions_by_stream_start.remove(BY_APPEND);
    let note = seen.verdict().notes.remove(0);
    assert!(note.contains("session.created in 100 % of sessions. So stream TTFT"), "{note}");
    assert!(note.contains("let the producer write collector.stream_start, or tap the client's direction"), "{note}");
    assert_eq!(seen.verdict().notes.len(), 1 + usize::from(seen.part().traits.sessions_with_clock_faults > 0));
    seen.is_quiet();
    assert_eq!(seen.verdict().notes, [""; 0]);
}

#[test]
fn the_limits_are_those_of_the_alerts() {
    const ALERTS: &str = include_str!("../../../deploy/prometheus/alerts.yml");
    const RECORDING: &str = include_str!("../../../deploy/prometheus/recording.yml");
    let verdict = Seen::fine().verdict();
    let check = |name| verdict.checks.iter().find(|check| check.name == name).expect("a check");
    let limit = |name| check(name).plotted.expect("it is plotted").limit;
    // Buckets are in seconds.
    let [ttft, rtf] = [limit("ttft") / 1000.0, limit("rtf")];
    for (rules, has) in [
        (RECORDING, format!(r#"duplex_response_ttft_seconds_bucket{{le="{ttft}""#)),
        (RECORDING, format!(r#"duplex_response_rtf_bucket{{le="{rtf}""#)),
        (ALERTS, "duplex:response_ttft_slow:ratio_rate1h > 14.4 * 0.05".into()),
        (ALERTS, "duplex_partition_lag_seconds > 60".into()),
        (ALERTS, "duplex:dead_letters:ratio_rate5m > 0.01".into()),
        (ALERTS, "increase(duplex_sessions_finished_total[30m])".into()),
        (ALERTS, "increase(duplex_bundles_truncated_total[1h])) > 0".into()),
    ] {
        assert!(rules.contains(&has), "{has}");
    }
    for (name, objective) in [
        ("ttft", "at most 5 % of responses"),
        ("lag", "at most 60 s, this replica"),
        ("dead_letters", "at most 1 % dead letters, this replica"),
    ] {
        assert_eq!(check(name).objective, objective);
    }
}

#[test]
fn what_has_stopped_is_said_of_the_run_that_is_shown_and_traffic_only_by_one_who_reads() {
    let headline = |change: fn(&mut Seen)| {
        told(|seen| {
            seen.is_quiet();
            seen.replica.recent.events = 0;
            change(seen);
        })
        .1
    };
    assert!(headline(|seen| seen.replica.sessions_open = Some(0.0)).starts_with("No traffic since "));
    assert!(headline(|seen| seen.replica.sessions_open = None).starts_with("No session has finished since "));
    let of_another = headline(|seen| seen.status.runs.insert(0, "later".into()));
    assert!(of_another.starts_with("No session of this run has finished since "), "{of_another}");
}

#[test]
fn a_value_past_its_limit_never_reads_as_the_limit() {
    let (_, _, wrong) = told(|seen| {
        figures(seen, Measure::ResponseTtfp).p99 = 2_004.0;
        seen.replica.lag_seconds = Some(60.04);
    });
    assert_eq!(wrong, [("ttfp", "p99 2004 ms".to_owned()), ("lag", "60.04 s".to_owned())]);
}
