//! Whether a partition's state may be gone on with: the changelog and the group's offset have to be of one commit.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::changelog::ChangelogState;
use super::clock::TaskClock;
use crate::collector::{SnapshotError, decode, version};
use crate::ids::{Offset, TopicId};

/// What a commit says of the whole state: by it a restore knows that the changelog and the group's offset are of the
/// same commit, and that no record is missing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The task's time.
    pub clock: TaskClock,
    /// The input offset that was committed with this state.
    pub next_offset: Offset,
    /// How many sessions have a head in the changelog,
    pub open_sessions: u64,
    /// and how many a marker.
    pub closed_sessions: u64,
    /// The topic whose records made this state. `None` where versions up to 4 wrote it, or the client does not tell ids.
    pub topic: Option<TopicId>,
}

impl Checkpoint {
    pub(super) fn decode(snapshot: &[u8]) -> Result<Self, SnapshotError> {
        let (now, next_offset, open_sessions, closed_sessions, topic) = match version(snapshot) {
            Some(2..=4) => {
                let (now, next_offset, open_sessions, closed_sessions) = decode(snapshot)?;
                (now, next_offset, open_sessions, closed_sessions, None)
            }
            Some(5) => decode(snapshot)?,
            _ => return decode(snapshot),
        };
        Ok(Self { clock: TaskClock::at(now), next_offset, open_sessions, closed_sessions, topic })
    }
}

/// What the group says of where to go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommittedOffset {
    /// The next offset to read; `None` where the group never committed, or its offset expired.
    pub offset: Option<Offset>,
    /// Committed by this program with a state in the changelog; a tool that sets an offset by hand leaves no such mark.
    pub has_state: bool,
}

/// Why a partition's state can't be restored: the task must not start, for it would lose sessions or write them twice.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RestoreError {
    #[error(
        "the events topic was deleted and made anew, or is of another cluster: the state is of the topic with id {was}, and \
         this one has id {is}. The records of the former one are gone, and with them what is left of the sessions that were \
         open. To read the new one from its first record on, stop every process of the group, delete the changelog and make \
         it anew, and set the group's offset of the events topic to its beginning (kafka-consumer-groups.sh --reset-offsets \
         --to-earliest)"
    )]
    AnotherTopic { was: TopicId, is: TopicId },
    #[error("the changelog has a key of an unknown kind, {0:?}; is it another program's topic, or a newer release's?")]
    UnknownKey(Option<char>),
    #[error(
        "the changelog has state, but the group has no committed offset: it expired, or kafka.group_id was changed; \
         set the group's offset{}, or give the group a changelog of its own", at(.0)
    )]
    OffsetsLost(Option<Offset>),
    #[error(
        "the group has committed offset {0} with a state that the changelog does not have: the topic was emptied, \
         recreated or renamed; bring it back, or, to go on without the sessions that were open, set the group's offset by \
         hand (kafka-consumer-groups --reset-offsets)"
    )]
    ChangelogLost(Offset),
    #[error(
        "the changelog's state is of offset {checkpoint}, the group's committed offset is {committed}: {}",
        why_apart(.checkpoint, .committed, *.has_state)
    )]
    Disagrees { checkpoint: Offset, committed: Offset, has_state: bool },
    #[error(
        "the changelog is incomplete, it has {found} {what} where its last commit had {expected}: records were deleted \
         from it; is cleanup.policy=compact, and has nobody deleted records? Bring it back, or empty it and set the \
         group's offset by hand, which loses the sessions that were open"
    )]
    Incomplete { what: &'static str, expected: u64, found: u64 },
    #[error(
        "the changelog has {found} {what} where its last commit had {expected}: its leader lacks tombstones, as a replica does \
         that was away for longer than the changelog's delete.retention.ms. The other replicas have the whole state: make one \
         of them the leader (restart the leader's broker, or kafka-leader-election.sh) and start again, which loses nothing; \
         then raise delete.retention.ms above the longest absence of a broker"
    )]
    Surplus { what: &'static str, expected: u64, found: u64 },
    #[error("{what}: {source}")]
    Snapshot { what: &'static str, source: SnapshotError },
}

impl RestoreError {
    /// Whether another look may find another state: the changelog and the group's offset were perhaps only read at different
    /// times, for the one is of a later commit of this program than the other; or another replica may become the leader.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::OffsetsLost(_) | Self::Disagrees { has_state: true, .. } | Self::Surplus { .. })
    }
}

fn at(offset: &Option<Offset>) -> String {
    offset.map(|offset| format!(" to {offset}")).unwrap_or_default()
}

fn why_apart(checkpoint: &Offset, committed: &Offset, has_state: bool) -> String {
    if !has_state {
        return format!(
            "it was set by hand, but state can't be wound to it; set it back to {checkpoint}, or empty the changelog to \
             begin at {committed} without open sessions"
        );
    }
    let older = if checkpoint < committed { "the changelog" } else { "the group's offset" };
    format!(
        "{older} is of an earlier time, as after a backup was brought back, or a crash under at_least_once (then run that \
         once more and stop it with SIGTERM before changing worker.processing_guarantee)"
    )
}

impl ChangelogState {
    /// Whether the state is of this topic, as far as it is known.
    ///
    /// # Errors
    /// When it is of another one.
    pub fn check_topic(&self, is: &TopicId) -> Result<(), RestoreError> {
        match self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.topic.as_ref()) {
            Some(was) if was != is => Err(RestoreError::AnotherTopic { was: was.clone(), is: is.clone() }),
            _ => Ok(()),
        }
    }

    /// Whether one transaction wrote this state and the group's offset, and nothing of it is missing.
    ///
    /// # Errors
    /// When it is not so: going on would lose sessions, or write them twice.
    pub fn check_exactly_once(&self, committed: CommittedOffset) -> Result<(), RestoreError> {
        let Some(offset) = committed.offset else {
            let is_empty = self.clock == TaskClock::default() && self.checkpoint.is_none();
            let next = self.checkpoint.as_ref().map(|checkpoint| checkpoint.next_offset);
            return if is_empty { Ok(()) } else { Err(RestoreError::OffsetsLost(next)) };
        };
        self.check_present(offset, committed.has_state)?;
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        if checkpoint.next_offset != offset {
            return Err(Self::disagrees(checkpoint, offset, committed.has_state));
        }
        let count = |found: usize| u64::try_from(found).expect("a count fits");
        for (what, expected, found) in [
            ("open sessions", checkpoint.open_sessions, count(self.heads.len())),
            ("finished sessions", checkpoint.closed_sessions, count(self.closed.len())),
        ] {
            if expected > found {
                return Err(RestoreError::Incomplete { what, expected, found });
            }
            if expected < found {
                return Err(RestoreError::Surplus { what, expected, found });
            }
        }
        Ok(())
    }

    /// Whether nothing is lost where state is written first and the offset after it: a crash can come between the two,
    /// and in the middle of the state.
    ///
    /// # Errors
    /// When the changelog is behind the group's offset.
    pub fn check_at_least_once(&self, committed: CommittedOffset) -> Result<(), RestoreError> {
        let Some(offset) = committed.offset else { return Ok(()) };
        self.check_present(offset, committed.has_state)?;
        match &self.checkpoint {
            Some(checkpoint) if checkpoint.next_offset < offset => {
                Err(Self::disagrees(checkpoint, offset, committed.has_state))
            }
            _ => Ok(()),
        }
    }

    fn check_present(&self, committed: Offset, has_state: bool) -> Result<(), RestoreError> {
        let is_lost = has_state && self.checkpoint.is_none();
        if is_lost { Err(RestoreError::ChangelogLost(committed)) } else { Ok(()) }
    }

    fn disagrees(checkpoint: &Checkpoint, committed: Offset, has_state: bool) -> RestoreError {
        RestoreError::Disagrees { checkpoint: checkpoint.next_offset, committed, has_state }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::task::{ChangelogEntry, ClosedMarker, Key};
    use crate::time::Timestamp;

    /// What a commit at offset 7 leaves, with two sessions open and one finished.
    fn entries() -> BTreeMap<&'static str, ChangelogEntry> {
        let checkpoint = Checkpoint {
            clock: TaskClock::at(Some(Timestamp(1))),
            next_offset: Offset(7),
            open_sessions: 2,
            closed_sessions: 1,
            topic: Some("one".into()),
        };
        BTreeMap::from([
            ("checkpoint", Key::Checkpoint.put(&checkpoint)),
            ("a", Key::Session("a").put(&0)),
            ("b", Key::Session("b").put(&0)),
            ("c", Key::Closed("c").put(&ClosedMarker { until: Timestamp(9) })),
        ])
    }

    /// The changelog without the entries of these names.
    fn without(missing: &[&str]) -> ChangelogState {
        let mut state = ChangelogState::default();
        for (_, entry) in entries().iter().filter(|(name, _)| !missing.contains(name)) {
            state.apply(&entry.key, entry.value.as_deref()).expect("our own entry");
        }
        state
    }

    fn ours(offset: i64) -> CommittedOffset {
        CommittedOffset { offset: Some(Offset(offset)), has_state: true }
    }

    fn by_hand(offset: i64) -> CommittedOffset {
        CommittedOffset { offset: Some(Offset(offset)), has_state: false }
    }

    const NONE: CommittedOffset = CommittedOffset { offset: None, has_state: false };
    const EVERYTHING: [&str; 4] = ["checkpoint", "a", "b", "c"];

    #[test]
    fn a_state_of_the_committed_offset_is_gone_on_with() {
        assert_eq!(without(&[]).check_exactly_once(ours(7)), Ok(()));
        // Set by hand, but to where it stood.
        assert_eq!(without(&[]).check_exactly_once(by_hand(7)), Ok(()));
        assert_eq!(without(&EVERYTHING).check_exactly_once(NONE), Ok(()));
        // A new group that is to begin somewhere.
        assert_eq!(without(&EVERYTHING).check_exactly_once(by_hand(7)), Ok(()));
    }

    #[test]
    fn a_state_of_another_offset_is_refused() {
        for committed in [ours(6), ours(8), by_hand(6), by_hand(8)] {
            let refused = without(&[]).check_exactly_once(committed);
            assert!(matches!(refused, Err(RestoreError::Disagrees { checkpoint: Offset(7), .. })), "{refused:?}");
        }
        assert_eq!(without(&[]).check_exactly_once(NONE), Err(RestoreError::OffsetsLost(Some(Offset(7)))));
        assert_eq!(without(&EVERYTHING).check_exactly_once(ours(7)), Err(RestoreError::ChangelogLost(Offset(7))));
    }

    #[test]
    fn a_changelog_that_lost_records_is_refused() {
        for (missing, what, expected, found) in
            [("a", "open sessions", 2, 1), ("b", "open sessions", 2, 1), ("c", "finished sessions", 1, 0)]
        {
            let refused = without(&[missing]).check_exactly_once(ours(7));
            assert_eq!(refused, Err(RestoreError::Incomplete { what, expected, found }));
        }
        assert_eq!(without(&["checkpoint"]).check_exactly_once(ours(7)), Err(RestoreError::ChangelogLost(Offset(7))));
    }

    #[test]
    fn a_changelog_that_lacks_tombstones_is_refused_and_may_pass() {
        let mut state = without(&[]);
        state.apply(b"Sgone", Some(b"head")).expect("our own entry");
        let refused = state.check_exactly_once(ours(7)).expect_err("it has a session too many");
        assert_eq!(refused, RestoreError::Surplus { what: "open sessions", expected: 2, found: 3 });
        assert!(refused.may_pass() && refused.to_string().contains("make one of them the leader"));
        let damaged = without(&["a"]).check_exactly_once(ours(7)).expect_err("it lacks a session");
        assert!(!damaged.may_pass(), "no look brings back what was deleted");
    }

    #[test]
    fn under_at_least_once_state_may_be_ahead_but_not_behind() {
        for committed in [NONE, ours(6), ours(7), by_hand(6)] {
            assert_eq!(without(&[]).check_at_least_once(committed), Ok(()));
        }
        // A crash in the middle of the state's records.
        assert_eq!(without(&["b"]).check_at_least_once(ours(6)), Ok(()));
        let refused = without(&[]).check_at_least_once(ours(8));
        assert!(matches!(refused, Err(RestoreError::Disagrees { .. })), "{refused:?}");
        assert_eq!(without(&EVERYTHING).check_at_least_once(ours(7)), Err(RestoreError::ChangelogLost(Offset(7))));
    }

    #[test]
    fn a_state_of_another_topic_is_refused_where_both_are_known() {
        assert_eq!(without(&[]).check_topic(&"one".into()), Ok(()));
        assert_eq!(without(&["checkpoint"]).check_topic(&"two".into()), Ok(()));
        let another = RestoreError::AnotherTopic { was: "one".into(), is: "two".into() };
        assert_eq!(without(&[]).check_topic(&"two".into()), Err(another));
    }

    #[test]
    fn checkpoints_of_earlier_versions_knew_the_time_and_up_to_4_no_topic() {
        let ours = Checkpoint::decode(&entries()["checkpoint"].value.clone().expect("a value")).expect("our own");
        // Version, time 1, offset 7, two sessions and one marker; then the topic.
        let of_5 = Checkpoint::decode(b"\x05\x01\x02\x0e\x02\x01\x01\x03one").expect("a snapshot of version 5");
        assert_eq!(of_5, ours);
        let of_4 = Checkpoint::decode(&[4, 1, 2, 14, 2, 1]).expect("a snapshot of version 4");
        assert_eq!(of_4, Checkpoint { topic: None, ..ours });
    }

    #[test]
    fn version_1_knew_the_time_only() {
        let mut state = without(&["checkpoint"]);
        state.apply(b"T", Some(&[1, 2])).expect("a snapshot of version 1");
        assert_eq!((state.clock.now(), &state.checkpoint), (Some(Timestamp(1)), &None));
        // Nothing to compare with until this release has committed once.
        assert_eq!(state.check_exactly_once(by_hand(3)), Ok(()));
        assert_eq!(state.check_exactly_once(NONE), Err(RestoreError::OffsetsLost(None)));
    }

    #[test]
    fn each_refusal_names_what_to_do() {
        let text = |e: RestoreError| e.to_string();
        let disagrees = |checkpoint, committed, has_state| {
            text(RestoreError::Disagrees { checkpoint: Offset(checkpoint), committed: Offset(committed), has_state })
        };
        assert!(disagrees(7, 9, false).contains("set it back to 7, or empty the changelog to begin at 9"));
        assert!(disagrees(7, 9, true).contains("the changelog is of an earlier time"));
        assert!(disagrees(9, 7, true).contains("the group's offset is of an earlier time"));
        assert!(text(RestoreError::OffsetsLost(Some(Offset(7)))).contains("set the group's offset to 7, or"));
    }
}
