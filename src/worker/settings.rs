//! `[worker]` of the configuration.

use std::time::Duration;

/// What a commit promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProcessingGuarantee {
    /// Bundles, state, dead letters and offsets in one transaction.
    #[default]
    ExactlyOnce,
    /// Without transactions: nothing is lost, a crash can write a bundle twice.
    AtLeastOnce,
}

impl ProcessingGuarantee {
    /// The value in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ExactlyOnce => "exactly_once",
            Self::AtLeastOnce => "at_least_once",
        }
    }
}

/// How a worker runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Worker threads of the process, each a member of the group.
    pub count: usize,
    /// The longest time between a record's arrival and its commit.
    pub commit_interval: Duration,
    pub processing_guarantee: ProcessingGuarantee,
    /// A restore that reads nothing for this long while the broker answers ends the worker.
    pub restore_timeout: Duration,
    /// How long a drain may take before the process exits all the same.
    pub drain_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            count: 1,
            commit_interval: Duration::from_millis(200),
            processing_guarantee: ProcessingGuarantee::ExactlyOnce,
            restore_timeout: Duration::from_secs(120),
            drain_timeout: Duration::from_secs(20),
        }
    }
}
