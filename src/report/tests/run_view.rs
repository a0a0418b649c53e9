//! Runs, models and windows; that figures depend on the bundles and not on their order.

use super::*;
use crate::time::Timestamp;

/// The wall clock of these tests.
const WALL: Timestamp = Timestamp(100_000_000_000);

/// A finished session with one row.
#[derive(Clone)]
struct Session {
    run: Option<String>,
    model: Option<String>,
    /// Before the wall clock.
    ago_s: i64,
    stream_ttft_ms: f64,
}

fn session(run: &str, ago_s: i64, stream_ttft_ms: f64) -> Session {
    Session { run: Some(run.to_owned()), model: Some("m".to_owned()), ago_s, stream_ttft_ms }
}

impl Session {
    fn bundle(&self) -> Vec<u8> {
        let Self { run, model, ago_s, stream_ttft_ms } = self;
        let bundle = serde_json::json!({
            "request_metrics": [
                {"response_id": "r", "ttft_ms": 2.0 * stream_ttft_ms, "client_ttft_ms": 0.02, "source": "server_request_start_and_client_receive"},
                {"response_id": "old", "ttft_ms": 5.0, "source": "client_monotonic_receive"},
            ],
            "session_metrics": {"stream_ttft_ms": stream_ttft_ms},
            "session": {"run_id": run, "model": model, "end_reason": "closed", "last_event_ms": WALL.0 - ago_s * 1000},
            "responses": [
                {"response_id": "r", "ttft_source": "server", "ttfp_source": null, "max_audio_gap_ms": 120.5},
                {"response_id": "old", "ttft_source": "client", "ttfp_source": null, "max_audio_gap_ms": null},
            ],
        });
        bundle.to_string().into_bytes()
    }
}

fn view_of(settings: ViewSettings, sessions: &[Session]) -> RunView {
    let mut view = RunView::new(settings);
    sessions.iter().for_each(|session| view.observe(&session.bundle(), WALL));
    view
}

/// Count and p50 of the stream TTFT in a part of a run.
fn stream_ttft(run: &RunSummary, model: &str, window: &str) -> Option<(usize, f64)> {
    let part = run.parts.iter().find(|part| part.model == model && part.window == window)?;
    part.figures.get(&Measure::StreamTtft).map(|figures| (figures.count, figures.p50))
}

#[test]
fn two_runs_stay_apart_and_one_without_a_name_is_the_default() {
    let unnamed = Session { run: None, ..session("", 0, 1.0) };
    let mut view = view_of(ViewSettings::default(), &[unnamed, session("nightly", 0, 5.0), session("default", 0, 3.0)]);
    view.observe(b"{}", WALL);
    let summaries = view.summaries();
    let seen: Vec<_> = summaries.iter().map(|run| (run.run_id.as_str(), stream_ttft(run, ALL, ALL))).collect();
    assert_eq!(seen, [("default", Some((2, 1.0))), ("nightly", Some((1, 5.0)))]);
    assert_eq!(view.unreadable(), 1);
}

#[test]
fn values_below_zero_and_those_that_are_not_there_are_left_out() {
    let mut view = view_of(ViewSettings::default(), &[session("r", 0, -3.0)]);
    let run = view.summaries().remove(0);
    assert_eq!((run.sessions(), run.distribution(Measure::StreamTtft)), (1, None));
    assert_eq!(run.distribution(Measure::StreamRtf), None);
}

#[test]
fn a_window_ends_with_the_last_event_of_any_run() {
    let sessions = [session("r", 0, 1.0), session("r", 200, 2.0), session("r", 1_000, 3.0), session("r", 4_000, 4.0)];
    let run = view_of(ViewSettings::default(), &sessions).summaries().remove(0);
    assert_eq!(stream_ttft(&run, ALL, "5m"), Some((2, 1.0)));
    assert_eq!(stream_ttft(&run, ALL, "1h"), Some((3, 2.0)));
    assert_eq!(stream_ttft(&run, ALL, ALL), Some((4, 2.0)));
    // Ten minutes on in another run: nothing is left in this one's five.
    let mut view = view_of(ViewSettings::default(), &sessions);
    view.observe(&session("other run", -240, 9.0).bundle(), WALL);
    let run = view.summaries().into_iter().find(|run| run.run_id == "r").expect("the run");
    assert_eq!(stream_ttft(&run, ALL, "5m"), Some((1, 1.0)));
}

#[test]
fn an_event_of_the_future_empties_no_window() {
    let sessions = [session("r", 0, 1.0), session("r", -3_600, 9.0)];
    let run = view_of(ViewSettings::default(), &sessions).summaries().remove(0);
    assert_eq!(stream_ttft(&run, ALL, "5m"), Some((1, 1.0)));
    assert_eq!(stream_ttft(&run, ALL, ALL), Some((2, 1.0)));
    assert_eq!(run.last_event, Some(WALL));
}

#[test]
fn each_model_has_figures_of_its_own_and_all_have_theirs_together() {
    let of = |model: Option<&str>, ttft| Session { model: model.map(str::to_owned), ..session("r", 0, ttft) };
    let sessions = [of(Some("a"), 1.0), of(Some("b"), 2.0), of(Some("b"), 3.0), of(None, 4.0), of(Some("all"), 5.0)];
    let run = view_of(ViewSettings::default(), &sessions).summaries().remove(0);
    for window in [ALL, "5m"] {
        let models = [("a", (1, 1.0)), ("b", (2, 2.0)), ("unknown", (1, 4.0)), ("other", (1, 5.0)), ("all", (5, 3.0))];
        for (model, expected) in models {
            assert_eq!(stream_ttft(&run, model, window), Some(expected), "{model} over {window}");
        }
    }
    let many: Vec<_> = (0..30).map(|i| of(Some(&format!("m{i:02}")), 1.0)).collect();
    let run = view_of(ViewSettings::default(), &many).summaries().remove(0);
    assert_eq!(stream_ttft(&run, OTHER, ALL), Some((10, 1.0)));
}

#[test]
fn ttft_is_told_apart_by_its_source() {
    let run = view_of(ViewSettings::default(), &[session("r", 0, 100.0)]).summaries().remove(0);
    let of = |measure| run.distribution(measure).map(|d| (d.count, d.p99));
    assert_eq!(of(Measure::ResponseTtft), Some((2, 200.0)));
    assert_eq!(of(Measure::ServerTtft), Some((1, 200.0)));
    assert_eq!(of(Measure::ClientTtft), Some((1, 0.02)));
    assert_eq!(of(Measure::AudioGap), Some((1, 120.5)));
}

#[test]
fn the_figures_do_not_depend_on_the_order_of_the_bundles() {
    let random = |i: i64| (i * 7_919) % 1_009;
    let mut sessions: Vec<_> = (0..2_000)
        .map(|i| Session {
            model: Some(format!("m{}", random(i) % 3)),
            ..session(&format!("r{}", random(i + 7) % 4), random(i) * 5, 0.1 * random(i + 3) as f64)
        })
        .collect();
    for exact_samples in [60, 600, 1_000_000] {
        let settings = ViewSettings { exact_samples, ..ViewSettings::default() };
        let expected = view_of(settings.clone(), &sessions).summaries();
        sessions.sort_by_key(|session| random(session.ago_s + session.stream_ttft_ms as i64));
        // Asked in between, as by scrapes.
        let mut view = RunView::new(settings);
        for (session, i) in sessions.iter().zip(0..) {
            view.observe(&session.bundle(), WALL);
            if i % 300 == 0 {
                view.summaries();
            }
        }
        assert_eq!(view.summaries(), expected, "{exact_samples} exact samples");
        let is_approximate = expected.iter().flat_map(|run| &run.parts).any(|part| part.approximate);
        assert_eq!(is_approximate, exact_samples < 1_000_000);
    }
}

#[test]
fn the_oldest_runs_leave_once_there_are_too_many_and_do_not_come_back_in_part() {
    let settings = ViewSettings { max_runs: 2, ..ViewSettings::default() };
    let mut view = view_of(settings, &[session("old", 300, 1.0), session("new", 100, 1.0), session("newest", 0, 1.0)]);
    assert_eq!(view.summaries().len(), 3, "none leaves while the topic is being read");
    view.let_old_runs_leave();
    let ids = |view: &mut RunView| view.summaries().into_iter().map(|run| run.run_id).collect::<Vec<_>>();
    assert_eq!(ids(&mut view), ["new", "newest"]);
    view.observe(&session("old", 200, 1.0).bundle(), WALL);
    assert!(!ids(&mut view).contains(&"old".to_owned()));
}
