//! What is printed: one row for each fault.

use std::io::{self, Write as _};
use std::sync::Once;
use std::time::Duration;

use super::flow::OPEN;
use super::history::Verdict;

/// The columns and their widths; what else there is to say comes after them.
const COLUMNS: [(&str, usize); 12] = [
    ("fault", 30),
    ("faults", 6),
    ("sessions in", 11),
    ("bundles out", 11),
    ("lost", 4),
    ("twice", 5),
    ("different", 9),
    ("open transactions", 17),
    ("lag", 3),
    ("open at once", 12),
    ("restarts", 8),
    ("seconds", 7),
];

/// What became of one fault's sessions.
pub struct Row {
    pub fault: &'static str,
    pub faults: usize,
    pub verdict: Verdict,
    /// Partitions with an open transaction after all.
    pub open_transactions: usize,
    /// Records behind the group's committed offsets after all.
    pub lag: usize,
    /// Sessions that were open ever since the faults began, at least.
    pub open_at_once: usize,
    /// Processes that gave up and were started again.
    pub restarts: usize,
    pub took: Duration,
    pub notes: Vec<String>,
    /// Some of what is wrong.
    pub examples: Vec<String>,
}

impl Row {
    /// # Panics
    /// When something is lost, twice, different or left, or fewer sessions were open than should have been.
    #[track_caller]
    pub fn assert_exactly_once(&self) {
        let Verdict { sessions_in, .. } = self.verdict;
        let right = Verdict { sessions_in, bundles_out: sessions_in, ..Verdict::default() };
        assert_eq!(self.verdict, right, "{}", self.examples.join("\n"));
        self.assert_nothing_left();
    }

    /// What holds without transactions too.
    ///
    /// # Panics
    /// When something is lost, different or left, or fewer sessions were open than should have been.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let Verdict { lost, different, .. } = self.verdict;
        assert_eq!((lost, different), (0, 0), "{}", self.examples.join("\n"));
        assert_eq!((self.open_transactions, self.lag), (0, 0), "open transactions and lag");
        assert!(self.open_at_once >= OPEN, "only {} sessions were open at once", self.open_at_once);
    }

    /// To the standard error itself: what `eprintln` says is shown of failed tests only.
    pub fn print(&self, seed: u64) {
        static HEAD: Once = Once::new();
        let mut text = String::new();
        HEAD.call_once(|| {
            let names = COLUMNS.map(|(name, _)| name.to_owned());
            text = format!("chaos: seed {seed}\n{}", line(names, "notes"));
        });
        text += &line(self.cells(), &self.notes.join("; "));
        // A test whose output nobody reads is still a test.
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn cells(&self) -> [String; COLUMNS.len()] {
        let Verdict { sessions_in, bundles_out, lost, twice, different } = self.verdict;
        let Self { open_transactions, lag, open_at_once, restarts, .. } = *self;
        let seconds = usize::try_from(self.took.as_secs()).expect("a test ends some day");
        let counts = [
            self.faults,
            sessions_in,
            bundles_out,
            lost,
            twice,
            different,
            open_transactions,
            lag,
            open_at_once,
            restarts,
            seconds,
        ];
        let mut cells = [const { String::new() }; COLUMNS.len()];
        cells[0] = self.fault.to_owned();
        for (cell, count) in cells[1..].iter_mut().zip(counts) {
            *cell = count.to_string();
        }
        cells
    }
}

fn line(cells: [String; COLUMNS.len()], notes: &str) -> String {
    let [fault, counts @ ..] = cells;
    let counts = counts.iter().zip(&COLUMNS[1..]).map(|(cell, (_, width))| format!("{cell:>width$}"));
    let counts: Vec<_> = counts.collect();
    let line = format!("chaos | {fault:<width$} | {} | {notes}", counts.join(" | "), width = COLUMNS[0].1);
    format!("{}\n", line.trim_end())
}
