//! The run view's figures are a function of what is on the bundles topic: not of the order in which its partitions are read,
//! nor of where one process ends and the next begins, nor of what retention had taken when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duplex_collector::report::{RunStatus, RunSummary, RunView, StatusQuery, ViewSettings};
use duplex_collector::time::Timestamp;
use proptest::prelude::*;

const MAX_RUNS: usize = 3;
const DEFAULT: &str = "production";

/// A bundle as it stands in a partition.
#[derive(Clone, Debug)]
struct Stored {
    run: Option<String>,
    model: Option<String>,
    written_at: Timestamp,
    /// Its last event's time, past when it was written.
    ahead_s: i64,
    ttft_ms: f64,
    id: u32,
}

impl Stored {
    fn json(&self) -> Vec<u8> {
        let Self { run, model, written_at, ahead_s, ttft_ms, id } = self;
        let json = serde_json::json!({
            "session_id": id.to_string(),
            "request_metrics": [{"response_id": "r", "ttft_ms": ttft_ms, "rtf": 0.5}],
            "session_metrics": {"stream_ttft_ms": 2.0 * ttft_ms},
            "session": {"run_id": run, "model": model, "end_reason": "closed",
                        "last_event_ms": written_at.0 + ahead_s * 1_000},
            "responses": [{"response_id": "r", "status": "completed", "ttft_source": "client"}],
        });
        json.to_string().into_bytes()
    }
}

/// One partition of the topic: its records, and how many of them retention takes.
type Partition = (Vec<Stored>, usize);

fn settings() -> ViewSettings {
    let window = |name: &str, seconds| (name.to_owned(), Duration::from_secs(seconds));
    let windows = vec![window("5m", 300), window("1h", 3_600)];
    ViewSettings {
        default_run_id: DEFAULT.into(),
        windows,
        exact_samples: 60,
        max_runs: MAX_RUNS,
        ..ViewSettings::default()
    }
}

/// Runs that come and go, and that go on; more models than are told apart; events late and ahead by any time.
fn stored() -> impl Strategy<Value = Stored> {
    let run = prop_oneof![
        4 => (0u32..12).prop_map(|run| Some(format!("run {run}"))),
        1 => Just(Some(DEFAULT.to_owned())),
        1 => Just(None),
        1 => (0u32..3).prop_map(|run| Some(format!("{}{run}", "long ".repeat(50)))),
    ];
    let ahead_s = prop_oneof![8 => -4_000i64..=0, 1 => 0i64..10_000];
    let model = prop::option::of((0u32..30).prop_map(|model| format!("model {model}")));
    let rest = (0i64..20_000, ahead_s, 0u32..5_000, 0u32..40);
    (run, model, rest).prop_map(|(run, model, (written_s, ahead_s, ttft, id))| {
        let written_at = Timestamp((1_000_000 + written_s) * 1_000);
        Stored { run, model, written_at, ahead_s, ttft_ms: f64::from(ttft) / 7.0, id }
    })
}

/// Partitions, each in the order of its timestamps but for every ninth record: producers' clocks differ.
fn topic() -> impl Strategy<Value = Vec<Partition>> {
    let records = prop::collection::vec(stored(), 0..120).prop_map(|mut records| {
        let mut times: Vec<_> = records.iter().map(|record| record.written_at).collect();
        times.sort_unstable();
        let is_tidy = |(at, _): &(usize, &mut Stored)| at % 9 != 0;
        for (at, record) in records.iter_mut().enumerate().filter(is_tidy) {
            record.written_at = times[at];
        }
        records
    });
    prop::collection::vec((records, any::<prop::sample::Index>()), 1..5).prop_map(|partitions| {
        let cut = |(records, cut): (Vec<Stored>, prop::sample::Index)| {
            let taken = cut.index(records.len() + 1);
            (records, taken)
        };
        partitions.into_iter().map(cut).collect()
    })
}

/// Takes the partitions' records in an order that `choices` makes. The clock goes on meanwhile, up to `now`.
fn take(view: &mut RunView, partitions: &[&[Stored]], choices: &[usize], now: Timestamp) {
    let mut left: Vec<&[Stored]> = partitions.to_vec();
    let mut choices = choices.iter().cycle();
    while left.iter().any(|left| !left.is_empty()) {
        left.retain(|left| !left.is_empty());
        let choice = choices.next().copied().unwrap_or_default();
        let from = choice % left.len();
        let (taken, later) = left[from].split_at((choice / 7 % 9 + 1).min(left[from].len()));
        let clock = now - Duration::from_secs(left.iter().map(|left| left.len() as u64).sum());
        taken.iter().for_each(|record| view.observe(&record.json(), record.written_at, clock));
        left[from] = later;
        if choice.is_multiple_of(5) {
            view.summaries(clock);
        }
    }
    view.has_read_all();
}

/// Reads a topic whole, and again where that is asked for, as the service does.
fn read(partitions: &[&[Stored]], choices: &[usize], now: Timestamp) -> RunView {
    let mut view = RunView::unread(settings());
    take(&mut view, partitions, choices, now);
    if view.needs_another_reading() {
        view = view.to_read_again();
        take(&mut view, partitions, choices, now);
    }
    assert!(!view.needs_another_reading(), "it knew every run before it began");
    view
}

type Figures = (Vec<RunSummary>, Option<usize>, Vec<RunStatus>);

fn figures(mut view: RunView, now: Timestamp) -> Figures {
    let asked = |window: Option<&str>| StatusQuery { window: window.map(str::to_owned), ..StatusQuery::default() };
    let status = [None, Some("5m"), Some("1h")].map(|window| view.status(&asked(window), now));
    (view.summaries(now), view.runs_not_shown(now), status.into())
}

/// The runs to be shown: the default one, then those whose first bundle was written last.
fn expected_runs(partitions: &[&[Stored]]) -> (BTreeSet<String>, usize) {
    let mut began: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for record in partitions.iter().copied().flatten() {
        let began = began.entry(record.run.as_deref().unwrap_or(DEFAULT)).or_insert(record.written_at);
        *began = record.written_at.min(*began);
    }
    let mut runs: Vec<_> = began.into_iter().map(|(run, began)| (run != DEFAULT, Reverse(began), run)).collect();
    runs.sort_unstable();
    let not_shown = runs.len().saturating_sub(MAX_RUNS);
    let shown = runs.into_iter().take(MAX_RUNS).map(|(.., run)| run.chars().take(47).collect());
    (shown.collect(), not_shown)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// `restarts` says how much of each partition had been read when a process that goes on reading had caught up.
    #[test]
    fn the_figures_are_those_of_the_topics_contents(
        topic in topic(),
        choices in prop::collection::vec(0usize..1_000, 1..40),
        caught_up in prop::collection::vec(any::<prop::sample::Index>(), 4),
        now_s in 0i64..30_000,
    ) {
        // Some records are stamped ahead of it.
        let now = Timestamp((1_000_000 + now_s) * 1_000);
        let whole: Vec<&[Stored]> = topic.iter().map(|(records, _)| records.as_slice()).collect();
        let left: Vec<&[Stored]> = topic.iter().map(|(records, taken)| &records[*taken..]).collect();
        for contents in [&whole, &left] {
            let expected = figures(read(contents, &[0], now), now);
            let (runs, not_shown) = expected_runs(contents);
            let shown = expected.0.iter().map(|run| run.run_id.chars().take(47).collect());
            prop_assert_eq!((shown.collect::<BTreeSet<String>>(), expected.1), (runs, Some(not_shown)));

            // Another process, which reads them in another order.
            prop_assert_eq!(&figures(read(contents, &choices, now), now), &expected);

            // One that had caught up before the rest was written.
            let before = |(records, index): (&&[Stored], &prop::sample::Index)| index.index(records.len() + 1);
            let before: Vec<usize> = contents.iter().zip(&caught_up).map(before).collect();
            let parts = contents.iter().zip(&before).map(|(records, before)| records.split_at(*before));
            let (early, late): (Vec<&[Stored]>, Vec<&[Stored]>) = parts.unzip();
            let before = now - Duration::from_secs(1_000);
            let mut view = read(&early, &choices, before);
            view.summaries(before);
            take(&mut view, &late, &choices, now);
            if view.needs_another_reading() {
                view = view.to_read_again();
                take(&mut view, contents, &choices, now);
            }
            prop_assert_eq!(&figures(view, now), &expected);
        }
    }
}
