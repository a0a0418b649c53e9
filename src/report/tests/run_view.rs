//! Runs, models and windows; that figures depend on the bundles and not on their order.

use std::time::Duration;

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
            "session_id": format!("{ago_s} s ago"),
            "request_metrics": [
                {"response_id": "r", "ttft_ms": 2.0 * stream_ttft_ms, "client_ttft_ms": 0.02, "source": "server_request_start_and_client_receive"},
                {"response_id": "old", "ttft_ms": 5.0, "source": "client_monotonic_receive"},
            ],
            "session_metrics": {"stream_ttft_ms": stream_ttft_ms},
            "session": {"run_id": run, "model": model, "end_reason": "closed", "last_event_ms": WALL.0 - ago_s * 1000},
            "responses": [
                {"response_id": "r", "status": "completed", "ttft_source": "server", "ttfp_source": null,
                 "created_ms": 100.0, "first_audio_ms": 250.5, "audio_packets": 7, "max_audio_gap_ms": 120.5},
                {"response_id": "old", "status": "cancelled", "ttft_source": "client", "ttfp_source": null,
                 "max_audio_gap_ms": null},
            ],
        });
        bundle.to_string().into_bytes()
    }
}

fn view_of(settings: ViewSettings, sessions: &[Session]) -> RunView {
    let mut view = RunView::new(settings);
    sessions.iter().for_each(|session| view.observe(&session.bundle(), WALL, WALL));
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
    view.observe(b"{}", WALL, WALL);
    let summaries = view.summaries(WALL);
    let seen: Vec<_> = summaries.iter().map(|run| (run.run_id.as_str(), stream_ttft(run, ALL, ALL))).collect();
    assert_eq!(seen, [("default", Some((2, 1.0))), ("nightly", Some((1, 5.0)))]);
    assert_eq!(view.unreadable(), 1);
}

#[test]
fn values_below_zero_and_those_that_are_not_there_are_left_out() {
    let mut view = view_of(ViewSettings::default(), &[session("r", 0, -3.0)]);
    let run = view.summaries(WALL).remove(0);
    assert_eq!((run.sessions(), run.distribution(Measure::StreamTtft)), (1, None));
    assert_eq!(run.distribution(Measure::StreamRtf), None);
}

#[test]
fn a_window_ends_with_the_last_event_of_any_run_while_traffic_goes_on() {
    let sessions = [session("r", 0, 1.0), session("r", 200, 2.0), session("r", 1_000, 3.0), session("r", 4_000, 4.0)];
    let run = view_of(ViewSettings::default(), &sessions).summaries(WALL).remove(0);
    assert_eq!(stream_ttft(&run, ALL, "5m"), Some((2, 1.0)));
    assert_eq!(stream_ttft(&run, ALL, "1h"), Some((3, 2.0)));
    assert_eq!(stream_ttft(&run, ALL, ALL), Some((4, 2.0)));
    // Four minutes on in another run.
    let later = WALL + Duration::from_secs(240);
    let mut view = view_of(ViewSettings::default(), &sessions);
    view.observe(&session("other run", -240, 9.0).bundle(), later, later);
    let run = view.summaries(later).into_iter().find(|run| run.run_id == "r").expect("the run");
    assert_eq!(stream_ttft(&run, ALL, "5m"), Some((1, 1.0)));
}

#[test]
fn a_window_ends_now_once_traffic_has_stopped_for_longer_than_the_shortest() {
    let sessions = [session("r", 0, 1.0), session("r", 200, 2.0), session("r", 3_500, 3.0)];
    let mut view = view_of(ViewSettings::default(), &sessions);
    for (silent_s, of_5m, of_1h) in
        [(0, 2, 3), (300, 2, 3), (301, 0, 2), (3_300, 0, 2), (3_460, 0, 1), (3_700, 0, 0), (1_000_000, 0, 0)]
    {
        let now = WALL + Duration::from_secs(silent_s);
        let run = view.summaries(now).remove(0);
        let counted = |window| stream_ttft(&run, ALL, window).map_or(0, |(count, _)| count);
        assert_eq!((counted("5m"), counted("1h"), counted(ALL)), (of_5m, of_1h, 3), "silent for {silent_s} s");
        assert_eq!(run.last_event, Some(WALL));
        let mut part = |window| view.status(&asked(None, None, Some(window)), now).view.expect("a window");
        let (part, whole) = (part("5m"), part(ALL));
        let in_slots = part.slots.iter().map(|slot| slot.sessions).sum::<u64>();
        assert_eq!((in_slots, part.shapes.is_empty()), (of_5m as u64, of_5m == 0), "silent for {silent_s} s");
        assert!(part.end_ms > WALL && !whole.shapes.is_empty());
    }
    // It goes on: what is older than the window does not come back.
    let now = WALL + Duration::from_secs(400);
    let mut view = view_of(ViewSettings::default(), &sessions);
    view.summaries(now);
    view.observe(&session("r", -399, 4.0).bundle(), now, now);
    assert_eq!(stream_ttft(&view.summaries(now)[0], ALL, "5m"), Some((1, 4.0)));
}

#[test]
fn sessions_that_end_by_silence_are_traffic_for_as_long_as_their_bundles_come() {
    // Their last event is longer ago than the shortest window when they are written.
    let mut view = view_of(ViewSettings::default(), &[session("r", 400, 1.0), session("r", 360, 2.0)]);
    let counted = |view: &mut RunView, silent_s| {
        let run = view.summaries(WALL + Duration::from_secs(silent_s)).remove(0);
        stream_ttft(&run, ALL, "5m").map(|(count, _)| count)
    };
    assert_eq!([0, 300, 301].map(|silent_s| counted(&mut view, silent_s)), [Some(2), Some(2), None]);
}

#[test]
fn a_window_that_reaches_back_further_than_what_was_read_waits_for_the_rest() {
    let mut view = RunView::unread(ViewSettings::default());
    // Of old events, whose bundles come now: the last hour of them may not all be there.
    view.observe(&session("r", 110 * 60, 1.0).bundle(), WALL, WALL);
    view.has_read_since(RunView::windows_since(&ViewSettings::default(), WALL));
    let run = view.summaries(WALL).remove(0);
    assert_eq!((stream_ttft(&run, ALL, "5m"), stream_ttft(&run, ALL, "1h")), (Some((1, 1.0)), None));
}

#[test]
fn one_wrong_time_neither_empties_the_windows_nor_moves_them() {
    // Ahead of its record, whose time is right: it is in no window. By no more than clocks may differ: it is.
    for (ahead_s, counted) in [(3_600, 1), (11, 1), (10, 2)] {
        let run = view_of(ViewSettings::default(), &[session("r", 0, 1.0), session("r", -ahead_s, 9.0)])
            .summaries(WALL)
            .remove(0);
        assert_eq!(stream_ttft(&run, ALL, "5m"), Some((counted, 1.0)), "{ahead_s} s ahead");
        assert_eq!(stream_ttft(&run, ALL, ALL), Some((2, 1.0)));
        assert_eq!(run.last_event > Some(WALL), counted == 2);
    }
    // The record's time is as wrong: it is in no window that ends now, and what comes after it is in them all the same.
    let mut view = view_of(ViewSettings::default(), &[session("r", 200, 1.0)]);
    view.observe(&session("r", -36_000, 9.0).bundle(), WALL + Duration::from_secs(36_000), WALL);
    view.observe(&session("r", 100, 2.0).bundle(), WALL, WALL);
    assert_eq!(stream_ttft(&view.summaries(WALL)[0], ALL, "5m"), Some((2, 1.0)));
    // Nor does it keep them from ending now once traffic has stopped.
    let later = WALL + Duration::from_secs(900);
    assert_eq!(stream_ttft(&view.summaries(later)[0], ALL, "5m"), None);
    let part = view.status(&asked(None, None, Some("5m")), WALL).view.expect("a window");
    assert!(part.slots.iter().all(|slot| slot.start_ms <= WALL), "{:?}", part.slots);
}

#[test]
fn each_model_has_figures_of_its_own_and_all_have_theirs_together() {
    let of = |model: Option<&str>, ttft| Session { model: model.map(str::to_owned), ..session("r", 0, ttft) };
    let sessions = [of(Some("a"), 1.0), of(Some("b"), 2.0), of(Some("b"), 3.0), of(None, 4.0), of(Some("all"), 5.0)];
    let run = view_of(ViewSettings::default(), &sessions).summaries(WALL).remove(0);
    for window in [ALL, "5m"] {
        let models = [("a", (1, 1.0)), ("b", (2, 2.0)), ("unknown", (1, 4.0)), ("other", (1, 5.0)), ("all", (5, 3.0))];
        for (model, expected) in models {
            assert_eq!(stream_ttft(&run, model, window), Some(expected), "{model} over {window}");
        }
    }
    let many: Vec<_> = (0..30).map(|i| of(Some(&format!("m{i:02}")), 1.0)).collect();
    let run = view_of(ViewSettings::default(), &many).summaries(WALL).remove(0);
    assert_eq!(stream_ttft(&run, OTHER, ALL), Some((10, 1.0)));
}

#[test]
fn ttft_is_told_apart_by_its_source() {
    let run = view_of(ViewSettings::default(), &[session("r", 0, 100.0)]).summaries(WALL).remove(0);
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
        let expected = view_of(settings.clone(), &sessions).summaries(WALL);
        sessions.sort_by_key(|session| random(session.ago_s + session.stream_ttft_ms as i64));
        // Asked in between, as by scrapes.
        let mut view = RunView::new(settings);
        for (session, i) in sessions.iter().zip(0..) {
            view.observe(&session.bundle(), WALL, WALL);
            if i % 300 == 0 {
                view.summaries(WALL);
            }
        }
        assert_eq!(view.summaries(WALL), expected, "{exact_samples} exact samples");
        let is_approximate = expected.iter().flat_map(|run| &run.parts).any(|part| part.approximate);
        assert_eq!(is_approximate, exact_samples < 1_000_000);
    }
}

fn ids(view: &mut RunView) -> Vec<String> {
    view.summaries(WALL).into_iter().map(|run| run.run_id).collect()
}

/// Takes a bundle of `run` that was written so many seconds before the wall clock.
fn write(view: &mut RunView, run: &str, ago_s: u64) {
    view.observe(&session(run, 0, 1.0).bundle(), WALL - Duration::from_secs(ago_s), WALL);
}

#[test]
fn the_runs_that_began_first_leave_and_do_not_come_back_in_part() {
    let mut view = RunView::new(ViewSettings { max_runs: 2, ..ViewSettings::default() });
    for (run, ago_s) in [("old", 300), ("new", 100), ("default", 900), ("newest", 50)] {
        write(&mut view, run, ago_s);
    }
    assert_eq!((ids(&mut view), view.runs_not_shown(WALL)), (vec!["default".into(), "newest".into()], Some(2)));
    write(&mut view, "old", 0);
    assert_eq!((ids(&mut view), view.runs_not_shown(WALL)), (vec!["default".into(), "newest".into()], Some(2)));
    assert_eq!(view.status(&asked(Some("old"), None, None), WALL).run, None);
    assert!(!view.needs_another_reading());
}

#[test]
fn a_run_that_had_to_leave_for_ones_that_began_before_it_is_read_again() {
    let settings = ViewSettings { max_runs: 1, ..ViewSettings::default() };
    let mut view = RunView::new(settings);
    let bundles = [("first", 500), ("a", 100), ("b", 100), ("a", 900), ("b", 900)];
    bundles.iter().for_each(|(run, ago_s)| write(&mut view, run, *ago_s));
    assert!(view.needs_another_reading());
    assert_eq!(ids(&mut view), [""; 0], "a part of it would be wrong");
    let mut again = view.to_read_again();
    assert_eq!((ids(&mut again), again.status(&StatusQuery::default(), WALL).complete), (Vec::new(), false));
    bundles.iter().for_each(|(run, ago_s)| write(&mut again, run, *ago_s));
    again.has_read_all();
    assert_eq!((ids(&mut again), again.runs_not_shown(WALL)), (vec!["first".into()], Some(2)));
    assert!(!again.needs_another_reading());
}

#[test]
fn series_have_one_budget_and_past_it_the_runs_that_began_first_are_not_shown() {
    let mut view = RunView::new(ViewSettings { max_runs: 1_000, ..ViewSettings::default() });
    for run in 0..100 {
        for model in 0..30 {
            let of = Session { model: Some(format!("{model}")), ..session(&format!("r{run:02}"), 0, 1.0) };
            view.observe(&of.bundle(), WALL + Duration::from_secs(run), WALL);
        }
    }
    let shown = view.summaries(WALL);
    let figures = shown.iter().flat_map(|run| &run.parts).map(|part| 3 + 6 * part.figures.len()).sum::<usize>();
    assert!((15_000..20_000).contains(&figures), "{figures}");
    assert_eq!(view.runs_not_shown(WALL), Some(100 - shown.len()));
    assert_eq!(shown.last().map(|run| run.run_id.as_str()), Some("r99"));
    let status = view.status(&StatusQuery::default(), WALL);
    assert_eq!((status.runs.len(), status.runs_not_shown), (shown.len(), Some(100 - shown.len())));
}

#[test]
fn a_long_name_is_cut_wherever_it_is_shown_and_found_by_either() {
    let long = "n".repeat(1_000);
    let of = Session { model: Some(long.clone()), ..session(&long, 0, 1.0) };
    let mut view = view_of(ViewSettings::default(), &[of]);
    let shown = view.summaries(WALL).remove(0).run_id;
    assert_eq!(shown.len(), 64);
    for name in [&long, &shown] {
        let status = view.status(&asked(Some(name), Some(name), None), WALL);
        assert_eq!(status.last_sessions.len(), 1);
        assert!(!serde_json::to_string(&status).expect("JSON").contains(&"n".repeat(65)));
    }
}

fn asked(run: Option<&str>, model: Option<&str>, window: Option<&str>) -> StatusQuery {
    let owned = |name: Option<&str>| name.map(str::to_owned);
    StatusQuery { run: owned(run), model: owned(model), window: owned(window) }
}

#[test]
fn figures_of_less_than_what_they_are_of_are_not_shown() {
    let settings = ViewSettings::default();
    let mut view = RunView::unread(settings.clone());
    view.observe(&session("r", 0, 1.0).bundle(), WALL, WALL);
    assert_eq!(view.summaries(WALL), []);
    assert_eq!(view.status(&StatusQuery::default(), WALL).run, None);

    let windows = |view: &mut RunView| {
        let run = view.summaries(WALL).remove(0);
        run.parts.iter().filter(|part| part.model == ALL).map(|part| part.window.clone()).collect::<Vec<_>>()
    };
    view.has_read_since(RunView::windows_since(&settings, WALL));
    assert_eq!(windows(&mut view), ["5m", "1h"]);
    let json = serde_json::to_value(view.summaries(WALL)).expect("JSON");
    assert_eq!((&json[0]["sessions"], &json[0]["responses"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert_eq!(view.status(&asked(None, None, Some("5m")), WALL).view.map(|part| part.slots.len()), Some(1));
    assert_eq!(view.status(&asked(None, None, Some(ALL)), WALL).view, None);

    // What is older changes no window, and completes the whole.
    view.observe(&session("r", 100_000, 9.0).bundle(), WALL, WALL);
    view.has_read_all();
    assert_eq!(windows(&mut view), ["all", "5m", "1h"]);
    let run = view.summaries(WALL).remove(0);
    assert_eq!((stream_ttft(&run, ALL, ALL), stream_ttft(&run, ALL, "1h")), (Some((2, 1.0)), Some((1, 1.0))));
    assert!(view.status(&StatusQuery::default(), WALL).complete);
}

#[test]
fn the_status_is_of_the_run_whose_last_event_is_latest_unless_another_is_asked_for() {
    let sessions = [session("a", 0, 1.0), session("b", 200, 2.0), session("b", 1_000, 3.0)];
    let mut view = view_of(ViewSettings::default(), &sessions);
    let status = view.status(&StatusQuery::default(), WALL);
    assert_eq!((status.runs, status.windows), (vec!["a".into(), "b".into()], vec!["5m".into(), "1h".into()]));
    assert_eq!(status.run.as_ref(), view.summaries(WALL).first());
    let status = view.status(&asked(Some("b"), None, Some("5m")), WALL);
    assert_eq!(status.run.as_ref(), view.summaries(WALL).last());
    let unknown = view.status(&asked(Some("c"), None, None), WALL);
    assert_eq!((unknown.run, unknown.view, unknown.last_sessions), (None, None, Vec::new()));
    assert_eq!(view.status(&asked(Some("b"), None, Some("2h")), WALL).view, None);
}

#[test]
fn quantiles_over_time_are_of_the_window_and_the_shape_is_of_all_that_was_asked_for() {
    let of = |model: &str, ago_s, ttft| Session { model: Some(model.to_owned()), ..session("r", ago_s, ttft) };
    let sessions =
        [of("a", 0, 100.0), of("b", 0, 300.0), of("a", 120, 200.0), of("a", 30 * 60, 50.0), of("a", 9_000, 5.0)];
    let mut view = view_of(ViewSettings::default(), &sessions);
    let mut slots = |model, window| {
        let part = view.status(&asked(None, model, window), WALL).view.expect("a part");
        let counts = |bins: &Vec<crate::distribution::Bin>| bins.iter().map(|bin| bin.count).sum::<u64>();
        let p50 = part.slots.iter().map(|slot| (slot.sessions, slot.figures[Measure::StreamTtft.name()].p50));
        (part.slot_ms, p50.collect::<Vec<_>>(), counts(&part.shapes[Measure::StreamTtft.name()]))
    };
    assert_eq!(slots(None, Some("5m")), (5_000, vec![(1, 200.0), (2, 100.0)], 3));
    assert_eq!(slots(Some("a"), Some("5m")), (5_000, vec![(1, 200.0), (1, 100.0)], 2));
    assert_eq!(slots(None, Some("1h")), (60_000, vec![(1, 50.0), (1, 200.0), (2, 100.0)], 4));
    assert_eq!(slots(None, None), slots(None, Some("5m")));
    assert_eq!(slots(None, Some(ALL)), (60_000, vec![(1, 50.0), (1, 200.0), (2, 100.0)], 5));
}

#[test]
fn the_last_sessions_are_those_whose_last_event_is_latest_whatever_their_order() {
    let mut sessions: Vec<_> = (0..60).map(|ago_s| session("r", ago_s, 1.0)).collect();
    let expected = view_of(ViewSettings::default(), &sessions).status(&StatusQuery::default(), WALL).last_sessions;
    let ids: Vec<_> = expected.iter().map(|session| session.session_id.as_str()).collect();
    assert_eq!((ids.len(), ids[0], ids[24]), (25, "0 s ago", "24 s ago"));
    assert_eq!(expected[0].responses[0].first_audio_ms, Some(250.5));
    sessions.sort_by_key(|session| (session.ago_s * 7) % 60);
    let shuffled = view_of(ViewSettings::default(), &sessions).status(&StatusQuery::default(), WALL).last_sessions;
    assert_eq!(shuffled, expected);
    let other_model = view_of(ViewSettings::default(), &sessions).status(&asked(None, Some("n"), None), WALL);
    assert_eq!(other_model.last_sessions, []);
}

#[test]
fn what_is_believed_of_a_bundle_rests_on_when_it_was_written_and_not_on_when_it_is_read() {
    let ahead = session("r", -3_600, 9.0).bundle();
    let of = |written_at| {
        let mut view = view_of(ViewSettings::default(), &[session("r", 0, 1.0)]);
        view.observe(&ahead, written_at, WALL);
        view.summaries(WALL).remove(0)
    };
    let (wrong_clock, later) = (of(WALL), of(WALL + Duration::from_secs(3_600)));
    assert_eq!((stream_ttft(&wrong_clock, ALL, "5m"), wrong_clock.last_event), (Some((1, 1.0)), Some(WALL)));
    // Whoever read it before that was now says the same of then.
    let read_at = |now| {
        let mut view = view_of(ViewSettings::default(), &[session("r", 0, 1.0)]);
        view.observe(&session("r", -3_500, 9.0).bundle(), WALL + Duration::from_secs(3_600), now);
        view.summaries(WALL + Duration::from_secs(3_850))
    };
    assert_eq!(read_at(WALL), read_at(WALL + Duration::from_secs(3_650)));
    // It is of the window that ends then, and of none that ends now.
    assert_eq!((stream_ttft(&later, ALL, "5m"), later.last_event.map(|at| at > WALL)), (Some((1, 1.0)), Some(true)));
}
