//! The run view over the bundles that the run left on their topic: a process that has read along shows what one shows that
//! begins at the end.

use std::time::Duration;

use duplex_collector::report::{RunStatus, RunSummary, RunView, StatusQuery, ViewSettings};
use duplex_collector::time::Timestamp;
use serde_json::Value;

use crate::broker::{BUNDLE_PARTITIONS, LogId};
use crate::invariant::{Invariant, Violation};
use crate::random::Random;
use crate::world::World;

/// A record of the topic: when it was written, and the bundle.
type Record = (Timestamp, Vec<u8>);

/// Fewer than there are.
const MAX_RUNS: usize = 2;
const RUNS: u64 = 5;
const MODELS: u64 = 25;

/// Compares a process that reads the partitions one after the other with one that had caught up before the last of it was
/// written, and reads them by turns.
pub fn judge(world: &World) -> Result<(), Violation> {
    let partitions: Vec<Vec<Record>> = (0..BUNDLE_PARTITIONS).map(|partition| records(world, partition)).collect();
    let mut random = Random::new(partitions.iter().map(|records| records.len() as u64).sum(), 7);
    let whole: Vec<&[Record]> = partitions.iter().map(Vec::as_slice).collect();
    // A while after the last of it was written.
    let written = partitions.iter().flatten().map(|(written_at, _)| *written_at).max().unwrap_or_default();
    let now = written + Duration::from_secs(random.below(400));
    let begins = figures(read_again_as_needed(read(RunView::new(settings()), &whole, None, now), &whole, now), now);

    let split = |records: &&'_ [Record]| random.below(records.len() as u64 + 1) as usize;
    let (early, late): (Vec<_>, Vec<_>) =
        whole.iter().map(split).collect::<Vec<_>>().into_iter().zip(&whole).map(|(at, all)| all.split_at(at)).unzip();
    let mut view = read_again_as_needed(read(RunView::new(settings()), &early, Some(&mut random), now), &early, now);
    view.summaries(now);
    let goes_on = figures(read_again_as_needed(read(view, &late, Some(&mut random), now), &whole, now), now);
    if begins != goes_on {
        let detail = format!("one that begins shows\n{begins:?}\none that went on\n{goes_on:?}");
        return Err(Violation::new(Invariant::RunFiguresAreOfTheTopic, detail));
    }
    Ok(())
}

fn settings() -> ViewSettings {
    let windows = vec![("1m".to_owned(), Duration::from_secs(60)), ("5m".to_owned(), Duration::from_secs(300))];
    ViewSettings {
        default_run_id: "r0".into(),
        windows,
        exact_samples: 60,
        max_runs: MAX_RUNS,
        ..ViewSettings::default()
    }
}

/// What a reader sees of a partition. The simulated traffic names no runs: each session gets a run and a model by its id.
fn records(world: &World, partition: i32) -> Vec<Record> {
    let visible = world.broker.log(LogId::Bundles(partition)).read(0);
    let record = |record: crate::log::Visible<'_>| {
        let mut bundle: Value = serde_json::from_slice(record.value.unwrap_or_default()).expect("a bundle is JSON");
        let digits =
            record.key.unwrap_or_default().iter().fold(0, |sum: u64, byte| 31 * sum % 9_973 + u64::from(*byte));
        bundle["session"]["run_id"] = format!("r{}", digits % RUNS).into();
        bundle["session"]["model"] = format!("m{}", digits % MODELS).into();
        (Timestamp(record.timestamp), bundle.to_string().into_bytes())
    };
    visible.map(record).collect()
}

/// Takes the partitions' records, by turns or one partition after the other.
fn read(mut view: RunView, partitions: &[&[Record]], mut turns: Option<&mut Random>, now: Timestamp) -> RunView {
    let mut left = partitions.to_vec();
    while left.iter().any(|left| !left.is_empty()) {
        left.retain(|left| !left.is_empty());
        let from = turns.as_mut().map_or(0, |random| random.below(left.len() as u64) as usize);
        let ((written_at, bundle), later) = left[from].split_first().expect("it is not empty");
        view.observe(bundle, *written_at, now);
        left[from] = later;
    }
    view
}

fn read_again_as_needed(view: RunView, partitions: &[&[Record]], now: Timestamp) -> RunView {
    if !view.needs_another_reading() {
        return view;
    }
    let mut again = read(view.to_read_again(), partitions, None, now);
    again.has_read_all();
    again
}

fn figures(mut view: RunView, now: Timestamp) -> (Vec<RunSummary>, Option<usize>, RunStatus) {
    (view.summaries(now), view.runs_not_shown(now), view.status(&StatusQuery::default(), now))
}
