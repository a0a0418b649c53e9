//! What was measured, passed between processes as one line, and shown.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;

/// One restore.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Row {
    pub took: Duration,
    /// Sessions that were open afterwards.
    pub sessions: usize,
    /// Changelog records read, and the bytes of their keys and values.
    pub records: u64,
    pub bytes: u64,
    /// Resident memory of the measuring process, bytes.
    pub resident_before: u64,
    pub resident_after: u64,
    pub resident_peak: u64,
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { took, sessions, records, bytes, resident_before, resident_after, resident_peak } = self;
        let us = took.as_micros();
        write!(f, "{us} {sessions} {records} {bytes} {resident_before} {resident_after} {resident_peak}")
    }
}

impl FromStr for Row {
    type Err = std::num::ParseIntError;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [us, sessions, records, bytes, resident_before, resident_after, resident_peak] = numbers[..] else {
            panic!("not a row: {line:?}");
        };
        let (took, sessions) = (Duration::from_micros(us), sessions as usize);
        Ok(Self { took, sessions, records, bytes, resident_before, resident_after, resident_peak })
    }
}

/// Restores beside each other.
pub struct Table(comfy_table::Table);

impl Table {
    pub fn new(what: &str) -> Self {
        let mut table = comfy_table::Table::new();
        let units =
            ["records", "MB", "s", "records/s", "MB/s", "ns/session", "resident MB", "peak MB", "bytes/session"];
        table.load_style(UTF8_FULL_CONDENSED).set_header([what].into_iter().chain(units));
        Self(table)
    }

    /// Adds a restore that must have brought `sessions` back.
    pub fn push(&mut self, what: &str, row: Row, sessions: usize) {
        let few = sessions / 50;
        assert!(row.sessions.abs_diff(sessions) <= few, "{} sessions were restored, not {sessions}", row.sessions);
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let (seconds, grown) = (row.took.as_secs_f64(), row.resident_after.saturating_sub(row.resident_before));
        self.0.add_row([
            what.to_owned(),
            row.records.to_string(),
            format!("{:.1}", mb(row.bytes)),
            format!("{seconds:.2}"),
            format!("{:.0}", row.records as f64 / seconds),
            format!("{:.1}", mb(row.bytes) / seconds),
            format!("{:.0}", seconds * 1e9 / row.sessions as f64),
            format!("{:.0}", mb(row.resident_after)),
            format!("{:.0}", mb(row.resident_peak)),
            format!("{:.0}", grown as f64 / row.sessions as f64),
        ]);
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0)
    }
}

/// Resident memory of this process in bytes, 0 where the system does not tell.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// The most it ever was.
pub fn resident_peak() -> u64 {
    status("VmHWM:")
}

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
