//! Which partitions this member holds and where it reads them: bookkeeping without a client.
//!
//! ```text
//! group gives -> Granted -> assign -> Paused -> resume -> Flowing
//!                  ^                    |                    |
//!                  +---- unassign ------+--------------------+   (voluntary: may be assigned anew)
//! group takes (revoked, lost) -> leaving -> unassign -> gone, acknowledged once none is left
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Offset, Partition};

/// How records of a held partition come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    /// Not at all: the worker has not assigned it, or gave it up for now.
    Granted,
    Paused,
    Flowing,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    flow: Flow,
    /// The next offset to read.
    next: Offset,
    /// Whether the client's position is that of what the worker saw: something was polled since it was last assigned.
    is_polled: bool,
    /// Whether it is in the client's assignment.
    at_client: bool,
}

/// What the group waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owed {
    Nothing,
    /// An answer to an assignment.
    Assign,
    /// An answer to a revocation, once no partition is leaving.
    Unassign,
}

/// The member's view of its assignment.
#[derive(Debug)]
pub(super) struct Assignment {
    held: BTreeMap<Partition, Held>,
    /// Taken by the group, not yet given back by the worker.
    leaving: BTreeSet<Partition>,
    /// Given back, still in the client's assignment.
    returned: BTreeSet<Partition>,
    owed: Owed,
    joined: bool,
}

/// What [`Assignment::unassign`] asks of the client.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Release {
    /// Given up by the worker while the group still has them here: to be paused.
    pub(super) pause: Vec<Partition>,
    /// The group waits for its answer, and these are to leave the client's assignment with it.
    pub(super) acknowledge: Option<Vec<Partition>>,
}

impl Assignment {
    pub(super) fn new() -> Self {
        Self {
            held: BTreeMap::new(),
            leaving: BTreeSet::new(),
            returned: BTreeSet::new(),
            owed: Owed::Nothing,
            joined: false,
        }
    }

    /// The group gave these.
    pub(super) fn granted(&mut self, partitions: &[Partition]) {
        for partition in partitions {
            self.held
                .insert(*partition, Held { flow: Flow::Granted, next: Offset(0), is_polled: false, at_client: false });
            self.leaving.remove(partition);
        }
        self.owed = Owed::Assign;
        self.joined = true;
    }

    /// The group takes these; only what is held counts.
    pub(super) fn revoked(&mut self, partitions: &[Partition], lost: bool) {
        self.leaving.extend(partitions.iter().filter(|partition| self.held.contains_key(partition)));
        self.owed = Owed::Unassign;
        self.joined &= !lost;
    }

    /// The group forgot this member and gave it partitions anew without taking the old ones: they are lost. Nobody
    /// waits for an answer.
    pub(super) fn superseded(&mut self) -> Vec<Partition> {
        self.leaving = self.held.keys().copied().collect();
        self.owed = Owed::Nothing;
        self.held.keys().copied().collect()
    }

    /// The client is gone, and its membership with it: what it held is lost. Nobody waits for an answer.
    pub(super) fn forgotten(&mut self) -> Vec<Partition> {
        self.held.values_mut().for_each(|held| held.at_client = false);
        self.returned.clear();
        self.joined = false;
        self.superseded()
    }

    pub(super) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the member has joined and was not told since that its partitions are lost.
    pub(super) fn has_joined(&self) -> bool {
        self.joined
    }

    pub(super) fn is_leaving_any(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Whether the worker is to see what comes of this partition.
    pub(super) fn accepts(&self, partition: Partition) -> bool {
        let flows = self.held.get(&partition).is_some_and(|held| held.flow != Flow::Granted);
        flows && !self.leaving.contains(&partition)
    }

    /// The worker saw the record before this offset, or that there is none up to it.
    pub(super) fn polled(&mut self, partition: Partition, next: Option<Offset>) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.next = next.unwrap_or(held.next);
            held.is_polled = true;
        }
    }

    /// Takes the client's position of a partition, which may be past the last record, where it is that of what the worker
    /// saw. A former one can be told for a while after a partition was assigned.
    pub(super) fn moved(&mut self, partition: Partition, position: Offset) -> bool {
        let is_seen = self.accepts(partition);
        let Some(held) = self.held.get_mut(&partition).filter(|held| is_seen && held.is_polled) else { return false };
        held.next = held.next.max(position);
        true
    }

    /// Whether a partition may be assigned: held and not leaving.
    pub(super) fn may_assign(&self, partition: Partition) -> bool {
        self.held.contains_key(&partition) && !self.leaving.contains(&partition)
    }

    pub(super) fn is_at_client(&self, partition: Partition) -> bool {
        self.held.get(&partition).is_some_and(|held| held.at_client)
    }

    /// Puts a partition into the client's assignment, paused.
    pub(super) fn assign(&mut self, partition: Partition, next: Offset) {
        if let Some(held) = self.held.get_mut(&partition) {
            *held = Held { flow: Flow::Paused, next, is_polled: false, at_client: true };
        }
    }

    /// The client is given its whole assignment anew.
    pub(super) fn reassigned(&mut self) {
        self.held.values_mut().for_each(|held| held.is_polled = false);
    }

    /// Whether the group waits for an answer to its assignment; it does not after this call.
    pub(super) fn take_owed_assign(&mut self) -> bool {
        let owed = self.owed == Owed::Assign;
        if owed {
            self.owed = Owed::Nothing;
        }
        owed
    }

    /// The client's whole assignment: partition, next offset, whether it is to be paused.
    pub(super) fn at_client(&self) -> impl Iterator<Item = (Partition, Offset, bool)> {
        self.held
            .iter()
            .filter(|(_, held)| held.at_client)
            .map(|(partition, held)| (*partition, held.next, held.flow != Flow::Flowing))
    }

    /// Lets a partition flow; false where that means nothing.
    pub(super) fn resume(&mut self, partition: Partition) -> bool {
        if !self.accepts(partition) {
            return false;
        }
        self.held.get_mut(&partition).is_some_and(|held| {
            held.flow = Flow::Flowing;
            held.at_client
        })
    }

    /// The worker gives these back.
    pub(super) fn unassign(&mut self, partitions: &[Partition]) -> Release {
        let mut release = Release::default();
        for partition in partitions {
            if self.leaving.remove(partition) {
                if self.held.remove(partition).is_some_and(|held| held.at_client) {
                    self.returned.insert(*partition);
                }
            } else if let Some(held) = self.held.get_mut(partition) {
                held.flow = Flow::Granted;
                if held.at_client {
                    release.pause.push(*partition);
                }
            }
        }
        if self.leaving.is_empty() {
            let returned = std::mem::take(&mut self.returned).into_iter().collect();
            if self.owed == Owed::Unassign {
                self.owed = Owed::Nothing;
                release.acknowledge = Some(returned);
            }
        }
        release
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: Partition = Partition(0);
    const P1: Partition = Partition(1);

    fn holding(partitions: &[Partition]) -> Assignment {
        let mut assignment = Assignment::new();
        assignment.granted(partitions);
        for partition in partitions {
            assignment.assign(*partition, Offset(0));
            assignment.resume(*partition);
        }
        assignment.take_owed_assign();
        assignment
    }

    #[test]
    fn a_revocation_is_acknowledged_once_its_last_partition_is_back() {
        let mut assignment = holding(&[P0, P1]);
        assignment.revoked(&[P0, P1], false);
        assert!(!assignment.accepts(P0));
        assert_eq!(assignment.unassign(&[P0]), Release::default());
        assert_eq!(assignment.unassign(&[P1]), Release { pause: vec![], acknowledge: Some(vec![P0, P1]) });
        assert_eq!(assignment.unassign(&[P1]), Release::default());
    }

    #[test]
    fn a_partition_that_was_never_assigned_is_acknowledged_without_the_client() {
        let mut assignment = holding(&[P0]);
        assignment.granted(&[P1]);
        assignment.revoked(&[P1], false);
        assert_eq!(assignment.unassign(&[P1]), Release { pause: vec![], acknowledge: Some(vec![]) });
        assert!(assignment.accepts(P0));
    }

    #[test]
    fn a_partition_given_up_by_the_worker_can_be_assigned_anew() {
        let mut assignment = holding(&[P0]);
        assignment.polled(P0, Some(Offset(5)));
        assert_eq!(assignment.unassign(&[P0]), Release { pause: vec![P0], acknowledge: None });
        assert!(!assignment.accepts(P0));
        assert!(assignment.may_assign(P0) && assignment.is_at_client(P0));
        assignment.assign(P0, Offset(2));
        assert_eq!(assignment.at_client().collect::<Vec<_>>(), [(P0, Offset(2), true)]);
    }

    #[test]
    fn a_partition_that_is_leaving_is_neither_assigned_nor_resumed() {
        let mut assignment = holding(&[P0]);
        assignment.revoked(&[P0], true);
        assert!(!assignment.may_assign(P0) && !assignment.resume(P0) && !assignment.has_joined());
    }

    #[test]
    fn what_a_client_held_that_is_gone_is_lost_and_asks_nothing_of_the_next_one() {
        let mut assignment = holding(&[P0, P1]);
        assignment.revoked(&[P0], false);
        assert_eq!(assignment.forgotten(), [P0, P1]);
        assert!(!assignment.has_joined() && !assignment.accepts(P1));
        assert_eq!(assignment.unassign(&[P0, P1]), Release::default());
        assignment.granted(&[P0]);
        assert!(assignment.take_owed_assign() && assignment.may_assign(P0) && !assignment.is_at_client(P0));
    }

    #[test]
    fn positions_follow_what_was_delivered() {
        let mut assignment = holding(&[P0]);
        assignment.polled(P0, Some(Offset(5)));
        assert_eq!(assignment.at_client().collect::<Vec<_>>(), [(P0, Offset(5), false)]);
        assert!(assignment.moved(P0, Offset(7)), "control records");
        assert_eq!(assignment.at_client().collect::<Vec<_>>(), [(P0, Offset(7), false)]);
    }

    #[test]
    fn a_position_counts_once_something_was_polled_since_the_partition_was_assigned() {
        let mut assignment = holding(&[P0, P1]);
        assignment.polled(P0, Some(Offset(5)));
        assert!(assignment.moved(P0, Offset(6)) && !assignment.moved(P1, Offset(9)));
        assignment.assign(P0, Offset(2));
        assert!(!assignment.moved(P0, Offset(6)), "the client may still tell the former one");
        assignment.polled(P0, None);
        assert!(assignment.moved(P0, Offset(4)));
        assignment.reassigned();
        assert!(!assignment.moved(P0, Offset(4)));
        assignment.polled(P0, None);
        assignment.revoked(&[P0], false);
        assert!(!assignment.moved(P0, Offset(4)), "what comes while it is leaving is dropped");
    }
}
