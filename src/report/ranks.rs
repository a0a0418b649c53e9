//! Which runs there are on the bundles topic, and which come first: those that began last.
//!
//! A run began with the first of its bundles to be written. The more is read, the earlier that can be, and never later: so the
//! order rests on what was read, and not on the order in which it was.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::time::Timestamp;

/// Runs that are known at once. Past it those that began first are forgotten; one that goes on after that is taken for new.
const MAX_RUNS: usize = 100_000;

/// A run's place; the smallest comes first.
pub(super) type Rank = (Reverse<Timestamp>, Arc<str>);

/// The runs, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    began: BTreeMap<Arc<str>, Timestamp>,
    order: BTreeSet<Rank>,
}

impl Ranks {
    /// Takes a bundle of `run` that was written at `at`; returns the run's name where it is new.
    pub fn see(&mut self, run: &str, at: Timestamp) -> Option<Arc<str>> {
        let known = self.began.get_key_value(run).map(|(name, began)| (Arc::clone(name), *began));
        match &known {
            Some((_, began)) if *began <= at => return None,
            Some((name, began)) => drop(self.order.remove(&(Reverse(*began), Arc::clone(name)))),
            None => {}
        }
        let is_new = known.is_none();
        let name = known.map_or_else(|| Arc::from(run), |(name, _)| name);
        self.began.insert(Arc::clone(&name), at);
        self.order.insert((Reverse(at), Arc::clone(&name)));
        if self.order.len() > MAX_RUNS
            && let Some((_, last)) = self.order.pop_last()
        {
            self.began.remove(&last);
        }
        is_new.then_some(name)
    }

    /// The runs, the one that began last first; of two at once the one whose name is smaller.
    pub fn in_order(&self) -> impl Iterator<Item = &Arc<str>> {
        self.order.iter().map(|(_, run)| run)
    }

    /// The place of a run that is known; of one that is not, the last.
    pub fn of(&self, run: &Arc<str>) -> Rank {
        (Reverse(self.began.get(run).copied().unwrap_or(Timestamp(i64::MIN))), Arc::clone(run))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.began.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_each_runs_first_bundle_whatever_came_first() {
        let mut bundles = [("a", 3), ("b", 2), ("c", 2), ("a", 1), ("d", 9)];
        for _ in 0..bundles.len() {
            bundles.rotate_left(1);
            let mut ranks = Ranks::default();
            let new = bundles.iter().filter(|(run, at)| ranks.see(run, Timestamp(*at)).is_some()).count();
            assert_eq!((new, ranks.len()), (4, 4));
            assert_eq!(ranks.in_order().map(|run| &**run).collect::<Vec<_>>(), ["d", "b", "c", "a"]);
        }
    }

    #[test]
    fn so_many_are_known_and_no_more() {
        let mut ranks = Ranks::default();
        for at in 0..MAX_RUNS as i64 + 5 {
            assert!(ranks.see(&at.to_string(), Timestamp(at)).is_some());
        }
        assert_eq!((ranks.len(), ranks.order.len()), (MAX_RUNS, MAX_RUNS));
        assert_eq!(ranks.in_order().last().map(|run| &**run), Some("5"));
    }
}
