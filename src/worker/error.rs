//! Why a worker ends.

use std::time::Duration;

use thiserror::Error;

use super::commit;
use super::ports::BrokerError;
use crate::ids::Partition;
use crate::task::RestoreError;

/// Why a worker ended before it was asked to.
#[derive(Debug, Error)]
pub enum WorkerError {
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error("partition {partition} can't be restored: {source}")]
    Restore { partition: Partition, source: RestoreError },
    /// The state of a partition that is being read is not of what is read.
    #[error("partition {partition} can't be read on: {source}")]
    State { partition: Partition, source: RestoreError },
    #[error(
        "restore of partition {0} has read nothing for {1:?} although the broker answers: a transaction on the changelog is \
         left open; it ends by its transaction.timeout.ms, or see kafka-transactions.sh find-hanging"
    )]
    RestoreStalled(Partition, Duration),
}

impl From<commit::Failed> for WorkerError {
    fn from(failed: commit::Failed) -> Self {
        failed.cause.into()
    }
}
