//! A member of the consumer group: `worker::Consumer` over librdkafka.
//!
//! librdkafka asks for a rebalance in the middle of a poll; the question is kept and handed to the worker as an event of
//! its own. The group waits until the worker answers with `assign` or `unassign`, so the worker can commit in between.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Message, Offset as Position, TopicPartitionList};
use tracing::{debug, warn};

use super::assignment::Assignment;
use super::client::{Deadline, REPLACE_TIMEOUT, drop_within};
use super::denial::Denial;
use super::group::{Group, Rebalance, accept_none, is_cooperative, locked, release_all};
use super::login::Login;
use super::settings::{Settings, Topics};
use super::{errors, offsets, records};
use crate::clock::SystemClock;
use crate::ids::{Offset, Partition, TopicId};
use crate::task::CommittedOffset;
use crate::time::Clock;
use crate::worker::{BrokerError, Ends, Polled, QueuedBytes, Start};

/// For the partitions to be given back while the client leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// One look at that; the leave itself is sent meanwhile.
const LEAVE_POLL: Duration = Duration::from_millis(100);

/// The group's metadata for a transaction. Shared, because a call that does not come back keeps it.
pub struct GroupMetadata(pub(super) Arc<ConsumerGroupMetadata>);

/// A member of the group that reads the events topic.
pub struct Consumer {
    /// `None` once closed.
    client: Option<BaseConsumer<Group>>,
    /// For another client in its place.
    config: ClientConfig,
    assignment: Assignment,
    topic: String,
    group: String,
    /// Since when a revocation waits for its answer.
    revoked_at: Option<Duration>,
    /// How long such a revocation may wait before this member may be out of the group without knowing.
    trust: Duration,
    clock: SystemClock,
    denial: Denial,
}

impl Consumer {
    /// Joins the group as member `slot` of this process and subscribes to the events topic.
    ///
    /// # Errors
    /// `Fatal` when the client can't be made.
    pub fn new(settings: &Settings, topics: &Topics, slot: usize) -> Result<Self, BrokerError> {
        let config = settings.consumer(slot);
        let group = Group::new(Login::of(settings), &topics.events, settings.debugs());
        let client = made(&config, group, &topics.events)?;
        Ok(Self {
            client: Some(client),
            config,
            assignment: Assignment::new(),
            topic: topics.events.clone(),
            group: settings.group_id.clone(),
            revoked_at: None,
            trust: settings.session_timeout() / 2,
            clock: SystemClock::new(),
            denial: Denial::default(),
        })
    }

    /// The bytes fetched and not yet polled, as of the last statistics.
    #[must_use]
    pub fn fetched(&self) -> QueuedBytes {
        self.client.as_ref().map(|client| client.context().fetched.clone()).unwrap_or_default()
    }

    fn list(&self, partitions: impl IntoIterator<Item = (Partition, Offset)>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for (partition, next) in partitions {
            let position = Position::Offset(next.0);
            list.add_partition_offset(&self.topic, partition.0, position).expect("the partition was just added");
        }
        list
    }

    fn names(&self, partitions: &[Partition]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.topic, partition.0);
        }
        list
    }

    /// Where the partition begins now.
    fn beginning(
        &self,
        client: &BaseConsumer<Group>,
        partition: Partition,
        deadline: Deadline,
    ) -> Result<Offset, BrokerError> {
        let watermarks = client.fetch_watermarks(&self.topic, partition.0, deadline.remaining());
        let call = || format!("beginning of {}[{partition}]", self.topic);
        watermarks.map(|(low, _)| Offset(low)).map_err(|error| errors::lookup(&call(), &error))
    }

    fn pause(&self, partitions: &[Partition]) -> Result<(), BrokerError> {
        if partitions.is_empty() {
            return Ok(());
        }
        let list = self.names(partitions);
        open(&self.client)?.pause(&list).map_err(|error| errors::other("pause", &error))?;
        each_done("pause", &list)
    }

    /// Puts another client in the place of one that was fenced by its own former self. When its session times out librdkafka
    /// empties its member id, but keeps sending heartbeats with its instance id. A coordinator that returns just then
    /// answers FENCED_INSTANCE_ID, as to a second process with this instance, and the client is dead.
    fn renew(&mut self, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError> {
        let next = made(&self.config, open(&self.client)?.context().renewed(), &self.topic)?;
        warn!("the group took this member's last heartbeats for another's, it joins anew");
        if let Some(client) = self.client.replace(next) {
            client.context().closing.store(true, Ordering::Release);
            drop_within(client, REPLACE_TIMEOUT, "consumer");
        }
        self.revoked_at = None;
        // Also where it had none: it has not joined any more.
        visit(Polled::Lost(self.assignment.forgotten()));
        Ok(())
    }

    /// Hands a rebalance to the worker; a revocation of nothing is answered here.
    fn hand_over(&mut self, asked: Rebalance, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError> {
        let client = open(&self.client)?;
        match asked {
            Rebalance::Assign(partitions) => {
                if !is_cooperative(client) && self.assignment.holds_any() {
                    let lost = self.assignment.superseded();
                    locked(&client.context().asked).push_front(Rebalance::Assign(partitions));
                    visit(Polled::Lost(lost));
                    return Ok(());
                }
                self.assignment.granted(&partitions);
                visit(Polled::Assigned(partitions));
            }
            Rebalance::Revoke { partitions, lost } => {
                self.assignment.revoked(&partitions, lost);
                if !self.assignment.is_leaving_any() {
                    return crate::worker::Consumer::unassign(self, &[]);
                }
                self.revoked_at = Some(self.clock.monotonic());
                visit(if lost { Polled::Lost(partitions) } else { Polled::Revoked(partitions) });
            }
        }
        Ok(())
    }
}

impl crate::worker::Consumer for Consumer {
    type GroupMetadata = GroupMetadata;

    fn poll(&mut self, timeout: Duration, visit: &mut dyn FnMut(Polled<'_>)) -> Result<(), BrokerError> {
        let asked = locked(&open(&self.client)?.context().asked).pop_front();
        if let Some(asked) = asked {
            return self.hand_over(asked, visit);
        }
        let client = open(&self.client)?;
        match client.poll(timeout) {
            // Perhaps because a rebalance came: nothing else may be asked of the client before its answer.
            None => {
                let asked = locked(&client.context().asked).pop_front();
                match asked {
                    Some(asked) => self.hand_over(asked, visit),
                    None => self.denial.repeated(),
                }
            }
            // Not redelivered by librdkafka, so it is handed over even when a rebalance came with it; the rebalance is
            // the next poll's. What is not held was given back, or is read from an explicit offset later.
            Some(Ok(message)) => {
                self.denial.clear();
                let partition = Partition(message.partition());
                if self.assignment.accepts(partition) && message.topic() == self.topic {
                    self.assignment.polled(partition, Some(Offset(message.offset()).next()));
                    visit(Polled::Record(records::record(&message)));
                }
                Ok(())
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.denial.clear();
                if self.assignment.accepts(Partition(partition)) {
                    self.assignment.polled(Partition(partition), None);
                    visit(Polled::EndOfPartition(Partition(partition)));
                }
                Ok(())
            }
            Some(Err(error)) => match errors::consumption(&error, &self.topic, &self.group) {
                BrokerError::Fenced(_) if client.context().session_timed_out.load(Ordering::Acquire) => {
                    self.renew(visit)
                }
                error => Err(self.denial.note(error)),
            },
        }
    }

    fn committed(&mut self, partitions: &[Partition], timeout: Duration) -> Result<Vec<Start>, BrokerError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Deadline::after(timeout);
        let client = open(&self.client)?;
        let call = format!("committed offsets of group {}", self.group);
        let list =
            client.committed_offsets(self.names(partitions), timeout).map_err(|error| errors::lookup(&call, &error))?;
        let (mut starts, mut failed) = (Vec::new(), None);
        for element in list.elements() {
            element.error().map_err(|error| errors::lookup(&call, &error))?;
            let offset = match element.offset() {
                Position::Offset(offset) => Some(Offset(offset)),
                _ => None,
            };
            let committed = CommittedOffset { offset, has_state: offsets::has_state(&element) };
            let partition = Partition(element.partition());
            match offset.map_or_else(|| self.beginning(client, partition, deadline), Ok) {
                Ok(from) => starts.push(Start { partition, committed, from }),
                Err(e) => failed = Some(e),
            }
        }
        failed.filter(|_| starts.is_empty()).map_or(Ok(starts), Err)
    }

    /// Also rewinds a partition that is assigned already. Partitions that the group took meanwhile are left out.
    fn assign(&mut self, starts: &[Start]) -> Result<(), BrokerError> {
        let client = open(&self.client)?;
        let starts: Vec<Start> =
            starts.iter().filter(|start| self.assignment.may_assign(start.partition)).copied().collect();
        if !self.assignment.take_owed_assign() && starts.is_empty() {
            return Ok(());
        }
        let cooperative = is_cooperative(client);
        if !cooperative {
            // The others are to go on past what is no record.
            moved(client, &mut self.assignment)?;
        }
        if cooperative {
            let again: Vec<_> =
                starts.iter().map(|start| start.partition).filter(|p| self.assignment.is_at_client(*p)).collect();
            if !again.is_empty() {
                client.incremental_unassign(&self.names(&again)).map_err(|error| errors::other("rewind", &error))?;
            }
        }
        for start in &starts {
            self.assignment.assign(start.partition, start.from);
            locked(&client.context().ends).remove(&start.partition);
        }
        let assigned = if cooperative {
            client.incremental_assign(&self.list(starts.iter().map(|start| (start.partition, start.from))))
        } else {
            self.assignment.reassigned();
            client.assign(&self.list(self.assignment.at_client().map(|(partition, next, _)| (partition, next))))
        };
        assigned.map_err(|error| errors::other("assign", &error))?;
        let paused: Vec<_> =
            self.assignment.at_client().filter(|(_, _, paused)| *paused).map(|(partition, ..)| partition).collect();
        self.pause(&paused)
    }

    fn resume(&mut self, partition: Partition) -> Result<(), BrokerError> {
        if !self.assignment.resume(partition) {
            return Ok(());
        }
        let list = self.names(&[partition]);
        open(&self.client)?.resume(&list).map_err(|error| errors::other("resume", &error))?;
        each_done("resume", &list)
    }

    /// Partitions that the group did not take are given up for now: they can be assigned anew, from any offset.
    fn unassign(&mut self, partitions: &[Partition]) -> Result<(), BrokerError> {
        let release = self.assignment.unassign(partitions);
        self.pause(&release.pause)?;
        let Some(returned) = release.acknowledge else { return Ok(()) };
        self.revoked_at = None;
        let client = open(&self.client)?;
        let answered = if is_cooperative(client) {
            client.incremental_unassign(&self.names(&returned))
        } else {
            client.unassign()
        };
        answered.map_err(|error| errors::other("unassign", &error))
    }

    fn group_metadata(&mut self) -> Result<GroupMetadata, BrokerError> {
        let out = |why: &str| Err(BrokerError::Abortable(format!("group {}: {why}", self.group)));
        if !self.assignment.has_joined() {
            return out("this member has not joined");
        }
        let client = open(&self.client)?;
        let Some(metadata) = client.group_metadata() else {
            return out("this member has no metadata");
        };
        // Asked for after the metadata: a member that was thrown out has a blank one, which the broker would accept
        // from anybody, and the loss is marked in the same step.
        if client.assignment_lost() {
            return out("this member lost its partitions");
        }
        // While a revocation waits, the loss is not marked.
        if self.revoked_at.is_some_and(|at| self.clock.monotonic().saturating_sub(at) > self.trust) {
            return out("the revoked partitions may have another owner by now");
        }
        Ok(GroupMetadata(Arc::new(metadata)))
    }

    fn commit_offsets(&mut self, offsets: &[(Partition, Offset)]) -> Result<(), BrokerError> {
        if offsets.is_empty() {
            return Ok(());
        }
        let list = offsets::to_commit(&self.topic, offsets);
        let committed = open(&self.client)?.commit(&list, CommitMode::Sync);
        committed.map_err(|error| errors::offset_commit(&error, &self.group))
    }

    fn positions(&mut self) -> Result<Vec<(Partition, Offset)>, BrokerError> {
        moved(open(&self.client)?, &mut self.assignment)
    }

    fn topic_id(&self) -> Option<TopicId> {
        self.client.as_ref().and_then(|client| locked(&client.context().topic_id).clone())
    }

    fn ends(&self, partition: Partition) -> Option<Ends> {
        let client = self.client.as_ref()?;
        let held = self.assignment.is_at_client(partition);
        held.then(|| locked(&client.context().ends).get(&partition).copied()).flatten()
    }

    fn is_connected(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.context().is_connected())
    }

    fn close(&mut self, timeout: Duration) {
        let Some(client) = self.client.take() else { return };
        self.assignment = Assignment::new();
        let deadline = Deadline::after(timeout);
        client.context().closing.store(true, Ordering::Release);
        // What was asked and not answered, and what is still held, would be waited for.
        if let Err(error) = accept_none(&client).and_then(|()| release_all(&client)) {
            debug!(%error, "release while closing");
        }
        // A static member that is closed does not leave its group, and others would wait for its session's end; one that
        // unsubscribes does, once its partitions are given back.
        client.unsubscribe();
        let left = Deadline::after(LEAVE_TIMEOUT.min(timeout / 2));
        while !left.passed() && client.assignment().is_ok_and(|held| held.count() > 0) {
            drop(client.poll(LEAVE_POLL));
        }
        drop(client.poll(LEAVE_POLL));
        drop_within(client, deadline.remaining(), "consumer");
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        crate::worker::Consumer::close(self, Duration::from_secs(5));
    }
}

fn made(config: &ClientConfig, group: Group, topic: &str) -> Result<BaseConsumer<Group>, BrokerError> {
    let client =
        BaseConsumer::from_config_and_context(config, group).map_err(|error| errors::creation("consumer", &error))?;
    client.subscribe(&[topic]).map_err(|error| errors::other("subscribe", &error))?;
    Ok(client)
}

fn open(client: &Option<BaseConsumer<Group>>) -> Result<&BaseConsumer<Group>, BrokerError> {
    client.as_ref().ok_or_else(|| BrokerError::Fatal("the consumer is closed".into()))
}

/// Takes the client's positions of the partitions whose records the worker saw.
fn moved(client: &BaseConsumer<Group>, assignment: &mut Assignment) -> Result<Vec<(Partition, Offset)>, BrokerError> {
    let positions = client.position().map_err(|error| errors::other("position", &error))?;
    let position = |element: &TopicPartitionListElem<'_>| match element.offset() {
        Position::Offset(offset) => Some((Partition(element.partition()), Offset(offset))),
        _ => None,
    };
    let known = positions.elements();
    Ok(known.iter().filter_map(position).filter(|(partition, at)| assignment.moved(*partition, *at)).collect())
}

fn each_done(call: &str, list: &TopicPartitionList) -> Result<(), BrokerError> {
    list.elements().iter().try_for_each(|element| element.error().map_err(|error| errors::other(call, &error)))
}
