//! A task's own time (contract.md section 7).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{self, Fault};
use crate::time::Timestamp;

/// How far a single session brings the time past what another one has reached.
const MAX_STEP: Duration = Duration::from_secs(60);

/// The time of a partition, as the timestamps of its sessions' records tell it. It never goes back.
///
/// It is the latest timestamp while that is at most a minute past what a second session has reached; else what the second one
/// has reached, and the step to the latest waits. So it takes two sessions to bring it further, in whatever order their
/// records come, and a session whose clock is wrong ends nobody else's, be it by one leap or by many small ones. The first
/// timestamp of all waits for a second session as well.
///
/// All that has to be remembered for this is the latest timestamp, whose it is, and the latest of any other session. Dead
/// letters and tombstones are of no session and say nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TaskClock {
    now: Option<Timestamp>,
    /// What two sessions have reached.
    attested: Option<Timestamp>,
    latest: Option<Latest>,
}

/// The latest timestamp of all, and whose it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Latest {
    session: String,
    at: Timestamp,
    /// The session's own time at its last record, and what has passed since by the wall clock. No other session is ahead of
    /// the time, so no other's runs apart.
    runs: Timestamp,
}

/// Where a clock stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    time: Timestamp,
    latest: Option<Timestamp>,
}

impl TaskClock {
    /// A clock that stands at `now`, as releases recorded it that knew no more.
    #[must_use]
    pub fn at(now: Option<Timestamp>) -> Self {
        Self { now, attested: now, latest: None }
    }

    /// The time; `None` while a single session has told one, if any.
    #[must_use]
    pub fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// The time, or what a single session has told so far; `None` before the first record.
    #[must_use]
    pub fn told(&self) -> Option<Timestamp> {
        self.now.or(self.latest.as_ref().map(|latest| latest.at))
    }

    /// Whether the time is behind the latest timestamp.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.latest.as_ref().is_some_and(|latest| self.now.is_some_and(|now| latest.at > now))
    }

    /// Takes the timestamp of a record of `session`, `None` where it has none that can be believed; the time of that session
    /// then: the partition's, or the record's own where that is later.
    ///
    /// Where nothing has told a time yet, such a record is taken to be of `wall`, the wall clock.
    pub fn observe(&mut self, session: &str, timestamp: Option<Timestamp>, wall: Timestamp) -> Timestamp {
        let is_first = self.now.is_none() && self.latest.is_none();
        let told = timestamp.or_else(|| is_first.then_some(wall));
        if let Some(told) = told {
            self.tell(session, told);
        }
        let own_now = told.max(self.now).or(self.told()).expect("the first record tells a time");
        if let Some(latest) = self.latest.as_mut().filter(|latest| latest.session == session) {
            latest.runs = own_now;
        }
        own_now
    }

    fn tell(&mut self, session: &str, told: Timestamp) {
        let latest = self.latest.get_or_insert_with(|| Latest { session: session.to_owned(), at: told, runs: told });
        let reached = if latest.session == session {
            latest.at = latest.at.max(told);
            None
        } else if told > latest.at {
            session.clone_into(&mut latest.session);
            Some(std::mem::replace(&mut latest.at, told))
        } else {
            Some(told)
        };
        self.attested = self.attested.max(reached);
        if let Some(attested) = self.attested {
            let believes_one = latest.at.since(attested) <= MAX_STEP || fault::is_on(Fault::BelieveOneWitness);
            self.now = self.now.max(Some(if believes_one { latest.at.max(attested) } else { attested }));
        }
    }

    /// What [`Self::advance`] goes on from; `None` before the first record.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        let latest = self.latest.as_ref().map(|latest| latest.runs);
        Some(Reading { time: self.told()?, latest })
    }

    /// Lets `elapsed` pass since a reading, up to `wall`, the wall clock; the time then.
    ///
    /// What records have brought since the reading is part of it. For the session of the latest timestamp it passes apart,
    /// unless a record of it has come since.
    pub fn advance(&mut self, since: Reading, elapsed: Duration, wall: Timestamp) -> Timestamp {
        if let Some(latest) = self.latest.as_mut().filter(|latest| Some(latest.runs) == since.latest) {
            latest.runs = latest.runs.max((latest.runs + elapsed).min(wall));
        }
        let to = (since.time + elapsed).min(wall);
        *self.now.insert(self.now.map_or(to, |now| now.max(to)))
    }

    /// The session whose timestamp is ahead of the time, if any, and its own time.
    #[must_use]
    pub fn ahead(&self) -> Option<(&str, Timestamp)> {
        self.latest.as_ref().filter(|_| self.waits()).map(|latest| (latest.session.as_str(), latest.runs))
    }

    /// Believes the latest timestamp, whoever told it: the capture is over. The time then.
    pub fn believe_latest(&mut self) -> Option<Timestamp> {
        self.now = self.now.max(self.latest.as_ref().map(|latest| latest.at));
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp(1_000_000_000);

    /// The time in seconds after these sessions' timestamps, in seconds.
    fn after(told: &[(&str, i64)]) -> Option<i64> {
        let mut clock = TaskClock::default();
        for (session, at) in told {
            clock.observe(session, Some(Timestamp(at * 1000)), WALL);
        }
        clock.now().map(|now| now.0 / 1000)
    }

    #[test]
    fn the_latest_timestamp_rules_up_to_a_minute_past_another_session() {
        assert_eq!(after(&[("a", 100), ("b", 101), ("a", 99)]), Some(101));
        assert_eq!(after(&[("a", 100), ("b", 160)]), Some(160));
        assert_eq!(after(&[("a", 100), ("b", 161)]), Some(100));
    }

    #[test]
    fn a_longer_step_waits_for_a_record_of_another_session_and_goes_to_the_smaller_of_the_two() {
        assert_eq!(after(&[("a", 0), ("b", 0), ("a", 5000), ("a", 6000)]), Some(0));
        assert_eq!(after(&[("a", 0), ("b", 0), ("a", 5000), ("b", 4000)]), Some(4000));
        assert_eq!(after(&[("a", 0), ("b", 0), ("a", 5000), ("b", 9000)]), Some(5000));
        assert_eq!(
            after(&[("a", 0), ("b", 0), ("a", 5000), ("b", 4950)]),
            Some(5000),
            "what is left is no longer step"
        );
    }

    #[test]
    fn a_single_session_comes_no_further_by_many_small_steps() {
        let steps: Vec<_> = (0..100).map(|step| ("fast", step * 50)).collect();
        assert_eq!(after(&[&[("a", 0), ("b", 1)], &steps[..]].concat()), Some(50));
    }

    #[test]
    fn the_first_timestamp_of_all_waits_as_any_other_leap() {
        assert_eq!(after(&[("wild", 90_000)]), None);
        assert_eq!(after(&[("wild", 90_000), ("a", 100)]), Some(100));
        assert_eq!(after(&[("wild", -90_000), ("a", 100)]), Some(-90_000));
        assert_eq!(after(&[("wild", -90_000), ("a", 100), ("b", 101)]), Some(101));
    }

    #[test]
    fn the_time_is_the_same_in_whatever_order_longer_steps_are_told() {
        let told = [("a", 0), ("b", 1000), ("c", 3000), ("b", 2000), ("a", 2500)];
        for first in 0..told.len() {
            let mut told = told;
            told.rotate_left(first);
            assert_eq!(after(&told), Some(2500), "{told:?}");
        }
    }

    #[test]
    fn a_session_s_own_time_is_the_partition_s_or_its_record_s_where_that_is_later() {
        let mut clock = TaskClock::default();
        let mut observe = |session, at: Option<i64>| clock.observe(session, at.map(Timestamp), WALL).0;
        assert_eq!(observe("a", Some(1_000)), 1_000);
        assert_eq!(observe("wild", Some(900_000)), 900_000);
        assert_eq!(observe("a", Some(2_000)), 2_000);
        assert_eq!(observe("wild", Some(500)), 2_000);
        assert_eq!(observe("none", None), 2_000);
    }

    #[test]
    fn the_first_record_is_of_now_where_it_tells_no_time_that_can_be_believed() {
        let mut clock = TaskClock::default();
        assert_eq!(clock.observe("a", None, WALL), WALL);
        assert_eq!(clock.observe("b", None, WALL + MAX_STEP), WALL, "nothing else tells a time");
        let mut old = TaskClock::at(Some(Timestamp(7)));
        assert_eq!(old.observe("a", None, WALL), Timestamp(7));
        clock.observe("c", Some(Timestamp(5)), WALL);
        assert_eq!((clock.now(), clock.observe("b", None, WALL)), (Some(Timestamp(5)), Timestamp(5)));
    }

    /// A second later by the wall clock.
    fn a_second_later(clock: &mut TaskClock, wall: Timestamp) -> (i64, Option<i64>) {
        let reading = clock.reading().expect("a record was told");
        let now = clock.advance(reading, Duration::from_secs(1), wall).0;
        (now, clock.ahead().map(|(_, own)| own.0))
    }

    #[test]
    fn time_runs_on_with_the_wall_clock_and_not_past_it_nor_back() {
        let mut clock = TaskClock::default();
        assert_eq!(clock.reading(), None);
        clock.observe("a", Some(Timestamp(500)), WALL);
        assert_eq!(a_second_later(&mut clock, WALL), (1_500, None));
        assert_eq!(a_second_later(&mut clock, Timestamp(2_400)), (2_400, None));
        assert_eq!(a_second_later(&mut clock, Timestamp(1_000)), (2_400, None));
    }

    #[test]
    fn what_records_have_brought_does_not_pass_twice() {
        let mut clock = TaskClock::at(Some(Timestamp(0)));
        let reading = clock.reading().expect("it has a time");
        clock.observe("a", Some(Timestamp(900)), WALL);
        clock.observe("b", Some(Timestamp(900)), WALL);
        assert_eq!(clock.advance(reading, Duration::from_secs(1), WALL), Timestamp(1_000));
    }

    #[test]
    fn the_session_that_is_ahead_of_the_time_has_time_pass_by_itself_until_another_comes() {
        let mut clock = TaskClock::at(Some(Timestamp(0)));
        clock.observe("old", Some(Timestamp(0)), WALL);
        clock.observe("a", Some(Timestamp(90_000)), WALL);
        assert_eq!(clock.ahead(), Some(("a", Timestamp(90_000))));
        assert_eq!(a_second_later(&mut clock, WALL), (1_000, Some(91_000)));
        let reading = clock.reading().expect("it has a time");
        clock.observe("a", Some(Timestamp(80_000)), WALL);
        clock.advance(reading, Duration::from_secs(1), WALL);
        assert_eq!(clock.ahead(), Some(("a", Timestamp(80_000))), "its silence begins anew");
        clock.observe("b", Some(Timestamp(500_000)), WALL);
        assert_eq!((clock.now(), clock.ahead()), (Some(Timestamp(90_000)), Some(("b", Timestamp(500_000)))));
    }

    #[test]
    fn at_the_end_of_a_capture_the_longest_step_is_believed() {
        let mut clock = TaskClock::default();
        clock.observe("a", Some(Timestamp(0)), WALL);
        assert_eq!(clock.believe_latest(), Some(Timestamp(0)));
        clock.observe("b", Some(Timestamp(90_000)), WALL);
        assert_eq!(clock.believe_latest(), Some(Timestamp(90_000)));
    }
}
