//! One commit: everything that must be exactly once, in one transaction.

use super::ports::{BrokerError, Consumer, Outgoing, Producer};
use super::settings::ProcessingGuarantee;
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
    for batch in batches {
        transaction.producer.send_batch(batch)?;
    }
    let offsets: Vec<(Partition, Offset)> = batches.iter().map(|batch| (batch.partition, batch.next_offset)).collect();
    match guarantee {
        ProcessingGuarantee::ExactlyOnce => {
            // Read anew: a member that has left its group since must not commit.
            let group = consumer.group_metadata()?;
            transaction.producer.send_offsets(&offsets, &group)?;
            transaction.commit()
        }
        ProcessingGuarantee::AtLeastOnce => {
            // Offsets last: what is not on the broker is read again.
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

trait SendBatch {
    fn send_batch(&mut self, batch: &CommitBatch) -> Result<(), BrokerError>;
}

impl<P: Producer> SendBatch for P {
    fn send_batch(&mut self, batch: &CommitBatch) -> Result<(), BrokerError> {
        for bundle in &batch.bundles {
            self.send(Outgoing::Bundle(bundle))?;
        }
        for entry in &batch.changelog {
            self.send(Outgoing::Changelog(batch.partition, entry))?;
        }
        for letter in &batch.dead_letters {
            self.send(Outgoing::DeadLetter(letter))?;
        }
        Ok(())
    }
}
