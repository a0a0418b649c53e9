//! The client's side of the group: which partitions a process holds, where it reads them, what it is told.
//!
//! It keeps to what `kafka::Consumer` promises of librdkafka: a revocation waits for its answer, what is given up without
//! being taken can be assigned anew, a paused partition may still let a record slip through.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::{Group, MemberId, Metadata};

/// How records of a held partition come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    Granted,
    Paused,
    Flowing,
}

#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub flow: Flow,
    /// The next offset to deliver.
    pub position: i64,
    /// Something was polled since it was assigned: the client knows the position.
    pub is_polled: bool,
    /// The end was told at this position.
    pub told_end_at: Option<i64>,
    /// For how long there has been something to read that was not delivered, as far as it was let pass.
    pub unseen: u64,
}

/// What a member hears of its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    Assigned(Vec<i32>),
    Revoked(Vec<i32>),
    Lost(Vec<i32>),
}

#[derive(Debug, Default)]
pub struct Member {
    id: Option<MemberId>,
    generation: i32,
    pub held: BTreeMap<i32, Held>,
    pub leaving: BTreeSet<i32>,
    awaits_unassign: bool,
    /// Cooperative: to be told once the revocation is answered.
    added: Option<BTreeSet<i32>>,
    rejoins: bool,
    joined: bool,
}

impl Member {
    pub fn id(&self) -> Option<MemberId> {
        self.id
    }

    /// What there is to be told; joins and synchronises on the way, as the client does in the background.
    pub fn next(&mut self, group: &mut Group, now: u64) -> Option<Told> {
        if self.awaits_unassign {
            return None;
        }
        let Some(id) = self.id else {
            self.id = Some(group.enter(now));
            return None;
        };
        if !group.knows(id) {
            (self.id, self.joined, self.rejoins, self.added) = (None, false, false, None);
            return (!self.held.is_empty()).then(|| Told::Lost(self.take(self.partitions())));
        }
        if let Some(added) = self.added.take() {
            self.rejoins = true;
            return (!added.is_empty()).then(|| self.grant(added));
        }
        if self.rejoins {
            self.rejoins = false;
            group.rejoin(id, self.partitions(), now);
            return None;
        }
        let Some(generation) = group.stable_generation() else {
            if !group.has_joined(id) {
                if !group.cooperative && !self.held.is_empty() {
                    return Some(Told::Revoked(self.take(self.partitions())));
                }
                group.rejoin(id, self.partitions(), now);
            }
            return None;
        };
        if generation == self.generation {
            return None;
        }
        self.generation = generation;
        let target = group.target(id);
        let owned = self.partitions();
        let removed: BTreeSet<i32> = owned.difference(&target).copied().collect();
        let added: BTreeSet<i32> = target.difference(&owned).copied().collect();
        if !removed.is_empty() {
            self.added = Some(added);
            return Some(Told::Revoked(self.take(removed)));
        }
        Some(self.grant(added))
    }

    fn partitions(&self) -> BTreeSet<i32> {
        self.held.keys().copied().collect()
    }

    fn grant(&mut self, added: BTreeSet<i32>) -> Told {
        for partition in &added {
            let held = Held { flow: Flow::Granted, position: 0, is_polled: false, told_end_at: None, unseen: 0 };
            self.held.insert(*partition, held);
            self.leaving.remove(partition);
        }
        self.joined = true;
        Told::Assigned(added.into_iter().collect())
    }

    fn take(&mut self, partitions: BTreeSet<i32>) -> Vec<i32> {
        self.leaving = partitions;
        self.awaits_unassign = true;
        self.leaving.iter().copied().collect()
    }

    /// Whether the worker is to see what comes of this partition.
    pub fn accepts(&self, partition: i32) -> bool {
        let flows = self.held.get(&partition).is_some_and(|held| held.flow != Flow::Granted);
        flows && !self.leaving.contains(&partition)
    }

    /// Accepts a partition, paused; one that the group took meanwhile is left out.
    pub fn assign(&mut self, partition: i32, position: i64) {
        if self.leaving.contains(&partition) {
            return;
        }
        if let Some(held) = self.held.get_mut(&partition) {
            *held = Held { flow: Flow::Paused, position, is_polled: false, told_end_at: None, unseen: 0 };
        }
    }

    pub fn resume(&mut self, partition: i32) {
        if self.accepts(partition)
            && let Some(held) = self.held.get_mut(&partition)
        {
            held.flow = Flow::Flowing;
        }
    }

    pub fn unassign(&mut self, partitions: &[i32]) {
        for partition in partitions {
            if self.leaving.remove(partition) {
                self.held.remove(partition);
            } else if let Some(held) = self.held.get_mut(partition) {
                held.flow = Flow::Granted;
            }
        }
        if self.leaving.is_empty() {
            self.awaits_unassign = false;
        }
    }

    /// What a transaction is given; `None` for a member that has not joined.
    pub fn metadata(&self) -> Option<Metadata> {
        self.id.filter(|_| self.joined).map(|member| Metadata { member, generation: self.generation })
    }
}
