//! How old a partition's next unread record is, as far as can be known without reading it. Pure, time is an argument.

use std::time::Duration;

use crate::time::Timestamp;

/// What is known of the timestamp of a partition's next unread record.
///
/// Nobody tells it before the record is read; but the record is not older than the last one that was, and came after
/// nothing was last left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unread {
    last_read: Option<Timestamp>,
    caught_up_at: Option<Timestamp>,
    /// Since records are left.
    left_since: Option<Timestamp>,
}

impl Unread {
    /// A record with this timestamp was read.
    pub fn read(&mut self, timestamp: Option<Timestamp>) {
        self.last_read = timestamp.or(self.last_read);
    }

    /// The age of the next unread record at `now`; zero when none is left.
    ///
    /// Before any was read, and while the end has not been reached either, it is at least how long records are known to
    /// be left. A record that was stamped long before it came counts from when it came.
    pub fn age(&mut self, now: Timestamp, any_left: bool) -> Duration {
        if !any_left {
            *self = Self { caught_up_at: Some(now), left_since: None, ..*self };
            return Duration::ZERO;
        }
        let left_since = *self.left_since.get_or_insert(now);
        now.since(self.last_read.max(self.caught_up_at).unwrap_or(left_since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: i64) -> Timestamp {
        Timestamp(1000 * seconds)
    }

    fn age(unread: &mut Unread, now: i64, any_left: bool) -> u64 {
        unread.age(s(now), any_left).as_secs()
    }

    #[test]
    fn in_a_backlog_the_next_record_is_as_old_as_the_last() {
        let mut unread = Unread::default();
        unread.read(Some(s(100)));
        assert_eq!(age(&mut unread, 3_700, true), 3_600);
        unread.read(Some(s(200)));
        unread.read(None);
        assert_eq!(age(&mut unread, 3_701, true), 3_501);
    }

    #[test]
    fn after_a_silence_the_next_record_is_not_as_old_as_the_last() {
        let mut unread = Unread::default();
        unread.read(Some(s(100)));
        assert_eq!(age(&mut unread, 3_699, false), 0);
        assert_eq!(age(&mut unread, 3_700, true), 1);
        assert_eq!(age(&mut unread, 3_760, true), 61, "it is not read");
        unread.read(Some(s(3_720)));
        assert_eq!(age(&mut unread, 3_761, true), 41);
    }

    #[test]
    fn before_the_first_record_is_read_it_is_at_least_as_old_as_the_news_of_it() {
        let mut unread = Unread::default();
        assert_eq!(age(&mut unread, 1_000, true), 0);
        assert_eq!(age(&mut unread, 1_030, true), 30);
        assert_eq!(age(&mut unread, 1_031, false), 0);
        assert_eq!(age(&mut unread, 1_032, true), 1);
    }

    #[test]
    fn a_record_of_long_ago_that_came_just_now_has_waited_since_then() {
        let mut unread = Unread::default();
        assert_eq!(age(&mut unread, 1_000, false), 0);
        unread.read(Some(s(10)));
        assert_eq!(age(&mut unread, 1_005, true), 5);
    }

    #[test]
    fn a_record_of_the_future_has_no_age() {
        let mut unread = Unread::default();
        unread.read(Some(s(2_000)));
        assert_eq!(age(&mut unread, 1_000, true), 0);
    }
}
