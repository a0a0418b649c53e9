//! The tables that commands end with.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};

use crate::distribution::Distribution;
use crate::report::{Measure, RunSummary};
use crate::task::Counts;

/// The run-level distributions, with units, as a performance engineer reads them.
#[must_use]
pub fn distributions(run: &RunSummary) -> Table {
    let mut table = table(&["run", run.run_id.as_str(), "samples", "mean", "p50", "p99"]);
    for (name, unit, measure) in [
        ("stream TTFT", "ms", Measure::StreamTtft),
        ("stream TTFP", "ms", Measure::StreamTtfp),
        ("stream RTF", "", Measure::StreamRtf),
        ("response TTFT", "ms", Measure::ResponseTtft),
        ("response TTFP", "ms", Measure::ResponseTtfp),
        ("response RTF", "", Measure::ResponseRtf),
        ("client TTFT", "ms", Measure::ClientTtft),
        ("client TTFP", "ms", Measure::ClientTtfp),
    ] {
        table.add_row(row(name, unit, run.distribution(measure)));
    }
    align(&mut table, 2..6);
    table
}

/// What became of a capture's or run's records and sessions.
#[must_use]
pub fn counts(counts: &Counts) -> Table {
    let mut table = table(&["counted", ""]);
    let mut add = |name: String, n: u64| table.add_row([name, n.to_string()]).column_count();
    add("records".into(), counts.records);
    let events: u64 = counts.events.values().sum();
    add("events".into(), events);
    for (outcome, name) in [("duplicate", "duplicates"), ("late", "late events")] {
        let n: u64 = counts.events.iter().filter(|((_, o), _)| o.as_str() == outcome).map(|(_, n)| n).sum();
        if n > 0 {
            add(format!("  {name}"), n);
        }
    }
    for (shape, n) in counts.unsupported() {
        add(format!("  not read: {}", shape.as_str()), n);
    }
    if counts.tombstones > 0 {
        add("tombstones".into(), counts.tombstones);
    }
    if counts.timestamps_ahead > 0 {
        add("timestamps past the wall clock".into(), counts.timestamps_ahead);
    }
    add("dead letters".into(), counts.dead_letters.values().sum());
    for (reason, n) in &counts.dead_letters {
        add(format!("  {}", reason.as_str()), *n);
    }
    add("sessions".into(), counts.sessions_finished.values().sum());
    for (reason, n) in &counts.sessions_finished {
        add(format!("  {}", reason.as_str()), *n);
    }
    for (fault, n) in &counts.clock_faults {
        add(format!("receive times {}", fault.as_str()), *n);
    }
    if counts.truncated > 0 {
        add("bundles truncated".into(), counts.truncated);
    }
    align(&mut table, 1..2);
    table
}

/// An empty table.
#[must_use]
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(header);
    table
}

fn row(name: &str, unit: &str, distribution: Option<Distribution>) -> Vec<Cell> {
    let digits = if unit.is_empty() { 6 } else { 3 };
    let mut row = vec![Cell::new(name), Cell::new(unit)];
    match distribution {
        Some(Distribution { count, mean, p50, p99 }) => {
            row.push(Cell::new(count));
            row.extend([mean, p50, p99].map(|value| Cell::new(format!("{value:.digits$}"))));
        }
        // No sample is not zero.
        None => row.push(Cell::new("none")),
    }
    row
}

/// Puts columns of numbers to the right.
pub fn align(table: &mut Table, columns: std::ops::Range<usize>) {
    for at in columns {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
