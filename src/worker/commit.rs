//! One commit: everything that must be exactly once, in one transaction.

use super::ports::{BrokerError, Consumer, Outgoing, Producer};
use super::settings::ProcessingGuarantee;
use crate::fault::{self, Fault};
use crate::ids::{Offset, Partition};
use crate::task::CommitBatch;

/// What of a transaction failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    Begin,
    /// A record could not be queued, or the delivery of one before it has failed.
    Send,
    /// This member is not in its group (any more).
    Group,
    /// The group does not take the offsets, or can't be reached.
    Offsets,
    /// The last deliveries, or the end of the transaction.
    Commit,
}

impl Step {
    /// All, in order.
    pub const ALL: [Self; 5] = [Self::Begin, Self::Send, Self::Group, Self::Offsets, Self::Commit];

    /// Its name as a label.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::Send => "send",
            Self::Group => "group",
            Self::Offsets => "offsets",
            Self::Commit => "commit",
        }
    }

    fn failed(self, cause: BrokerError) -> Failed {
        Failed { step: self, cause }
    }
}

/// A commit that did not come about.
#[derive(Debug)]
pub struct Failed {
    pub step: Step,
    pub cause: BrokerError,
}

/// Writes the batches and commits their offsets with them.
///
/// # Errors
/// The error of the call that failed; what was written since `begin` is then to be [aborted](Producer::abort).
pub fn commit<C, P>(
    consumer: &mut C,
    producer: &mut P,
    guarantee: ProcessingGuarantee,
    batches: &[CommitBatch],
) -> Result<(), Failed>
where
    C: Consumer,
    P: Producer<GroupMetadata = C::GroupMetadata>,
{
    let transaction = OpenTransaction::begin(producer)?;
    transaction.producer.send_output(batches)?;
    let offsets: Vec<(Partition, Offset)> = batches.iter().map(|batch| (batch.partition, batch.next_offset)).collect();
    match guarantee {
        ProcessingGuarantee::ExactlyOnce => {
            if !fault::is_on(Fault::StateAfterTransaction) {
                transaction.producer.send_state(batches)?;
            }
            // Read anew: a member that has left its group since must not commit.
            let group = consumer.group_metadata().map_err(|cause| Step::Group.failed(cause))?;
            if !fault::is_on(Fault::NoOffsets) && !fault::is_on(Fault::OffsetsAfterTransaction) {
                let sent = transaction.producer.send_offsets(&offsets, &group);
                sent.map_err(|cause| Step::Offsets.failed(cause))?;
            }
            transaction.commit()?;
            if fault::is_on(Fault::OffsetsAfterTransaction) {
                commit_offsets(consumer, &offsets)?;
            }
            if fault::is_on(Fault::StateAfterTransaction) {
                let transaction = OpenTransaction::begin(producer)?;
                transaction.producer.send_state(batches)?;
                transaction.commit()?;
            }
            Ok(())
        }
        ProcessingGuarantee::AtLeastOnce => {
            // In this order, for a crash may come between any two: what the state forgets has been written, and what is
            // not in the state is read again.
            transaction.commit()?;
            let transaction = OpenTransaction::begin(producer)?;
            transaction.producer.send_state(batches)?;
            transaction.commit()?;
            commit_offsets(consumer, &offsets)
        }
    }
}

fn commit_offsets(consumer: &mut impl Consumer, offsets: &[(Partition, Offset)]) -> Result<(), Failed> {
    consumer.commit_offsets(offsets).map_err(|cause| Step::Offsets.failed(cause))
}

/// A transaction that was begun.
struct OpenTransaction<'a, P> {
    producer: &'a mut P,
}

impl<'a, P: Producer> OpenTransaction<'a, P> {
    fn begin(producer: &'a mut P) -> Result<Self, Failed> {
        producer.begin().map_err(|cause| Step::Begin.failed(cause))?;
        Ok(Self { producer })
    }

    fn commit(self) -> Result<(), Failed> {
        self.producer.commit().map_err(|cause| Step::Commit.failed(cause))
    }
}

/// The two halves of what batches carry.
trait SendBatches {
    /// Bundles and dead letters: what others read.
    fn send_output(&mut self, batches: &[CommitBatch]) -> Result<(), Failed>;
    /// The changelog.
    fn send_state(&mut self, batches: &[CommitBatch]) -> Result<(), Failed>;
}

impl<P: Producer> SendBatches for P {
    fn send_output(&mut self, batches: &[CommitBatch]) -> Result<(), Failed> {
        for batch in batches {
            batch.bundles.iter().try_for_each(|bundle| send(self, Outgoing::Bundle(bundle)))?;
            batch.dead_letters.iter().try_for_each(|letter| send(self, Outgoing::DeadLetter(letter)))?;
        }
        Ok(())
    }

    fn send_state(&mut self, batches: &[CommitBatch]) -> Result<(), Failed> {
        for batch in batches {
            batch.changelog.iter().try_for_each(|entry| send(self, Outgoing::Changelog(batch.partition, entry)))?;
        }
        Ok(())
    }
}

fn send(producer: &mut impl Producer, record: Outgoing<'_>) -> Result<(), Failed> {
    producer.send(record).map_err(|cause| Step::Send.failed(cause))
}
