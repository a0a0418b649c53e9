//! One commit: everything that must be exactly once, in one transaction.

use super::ports::{BrokerError, Consumer, Outgoing, Producer};
use super::settings::ProcessingGuarantee;
use crate::fault::{self, Fault};
use crate::ids::{Offset, Partition};
use crate::task::CommitBatch;

/// Writes the batches and commits their offsets with them.
///
/// # Errors
/// The error of the call that failed; what was written since `begin` is then to be [aborted](Producer::abort).
pub fn commit<C, P>(
    consumer: &mut C,
    producer: &mut P,
    guarantee: ProcessingGuarantee,
    batches: &[CommitBatch],
) -> Result<(), BrokerError>
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
            let group = consumer.group_metadata()?;
            if !fault::is_on(Fault::NoOffsets) && !fault::is_on(Fault::OffsetsAfterTransaction) {
                transaction.producer.send_offsets(&offsets, &group)?;
            }
            transaction.commit()?;
            if fault::is_on(Fault::OffsetsAfterTransaction) {
                consumer.commit_offsets(&offsets)?;
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
            consumer.commit_offsets(&offsets)
        }
    }
}

/// A transaction that was begun.
struct OpenTransaction<'a, P> {
    producer: &'a mut P,
}

impl<'a, P: Producer> OpenTransaction<'a, P> {
    fn begin(producer: &'a mut P) -> Result<Self, BrokerError> {
        producer.begin()?;
        Ok(Self { producer })
    }

    fn commit(self) -> Result<(), BrokerError> {
        self.producer.commit()
    }
}

/// The two halves of what batches carry.
trait SendBatches {
    /// Bundles and dead letters: what others read.
    fn send_output(&mut self, batches: &[CommitBatch]) -> Result<(), BrokerError>;
    /// The changelog.
    fn send_state(&mut self, batches: &[CommitBatch]) -> Result<(), BrokerError>;
}

impl<P: Producer> SendBatches for P {
    fn send_output(&mut self, batches: &[CommitBatch]) -> Result<(), BrokerError> {
        for batch in batches {
            batch.bundles.iter().try_for_each(|bundle| self.send(Outgoing::Bundle(bundle)))?;
            batch.dead_letters.iter().try_for_each(|letter| self.send(Outgoing::DeadLetter(letter)))?;
        }
        Ok(())
    }

    fn send_state(&mut self, batches: &[CommitBatch]) -> Result<(), BrokerError> {
        for batch in batches {
            batch.changelog.iter().try_for_each(|entry| self.send(Outgoing::Changelog(batch.partition, entry)))?;
        }
        Ok(())
    }
}
