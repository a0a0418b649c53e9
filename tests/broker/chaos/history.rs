//! The checker: what went in, what came out, and what should have.

use std::collections::{BTreeMap, BTreeSet};

/// What a reader of the topics saw after all faults.
pub struct History<'a> {
    /// Every session that was sent.
    pub sessions: &'a BTreeSet<String>,
    /// Session and bytes of every committed bundle, in any order.
    pub bundles: &'a [(String, Vec<u8>)],
    /// The bundles that an offline replay of the same records gives.
    pub replayed: &'a BTreeMap<String, Vec<u8>>,
}

/// What the checker counts. Exactly once: as many bundles as sessions, and else nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    pub sessions_in: usize,
    pub bundles_out: usize,
    /// Sessions without a bundle.
    pub lost: usize,
    /// Bundles beyond their session's first.
    pub twice: usize,
    /// Bundles whose bytes are not those of the replay, or whose session nobody sent.
    pub different: usize,
}

impl History<'_> {
    pub fn verdict(&self) -> Verdict {
        let mut seen = BTreeSet::new();
        let mut verdict =
            Verdict { sessions_in: self.sessions.len(), bundles_out: self.bundles.len(), ..Verdict::default() };
        for (session, bytes) in self.bundles {
            verdict.twice += usize::from(!seen.insert(session));
            let is_expected = self.sessions.contains(session) && self.replayed.get(session) == Some(bytes);
            verdict.different += usize::from(!is_expected);
        }
        verdict.lost = self.sessions.iter().filter(|session| !seen.contains(session)).count();
        verdict
    }

    /// A few of the sessions that are wrong, each with what is wrong with it.
    pub fn examples(&self) -> Vec<String> {
        let mut bundles = BTreeMap::<&str, Vec<&[u8]>>::new();
        for (session, bytes) in self.bundles {
            bundles.entry(session).or_default().push(bytes);
        }
        let lost = self.sessions.iter().filter(|session| !bundles.contains_key(session.as_str()));
        let mut examples: Vec<_> = lost.take(3).map(|session| format!("{session}: no bundle")).collect();
        let twice = bundles.iter().filter(|(_, all)| all.len() > 1);
        examples.extend(twice.take(3).map(|(session, all)| format!("{session}: {} bundles", all.len())));
        let wrong = |(session, all): (&&str, &Vec<&[u8]>)| {
            let expected = self.replayed.get(*session).map(Vec::as_slice);
            let other = all.iter().find(|bytes| Some(**bytes) != expected)?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some(format!("{session}: is\n  {}\nnot\n  {}", text(other), expected.map_or("nothing".into(), text)))
        };
        examples.extend(bundles.iter().filter_map(wrong).take(3));
        examples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions `a`, `b` and `c` were sent; a replay gives each its own name for a bundle.
    fn verdict(bundles: &[(&str, &str)]) -> Verdict {
        let names = ["a", "b", "c"].map(str::to_owned);
        let bundles: Vec<_> = bundles.iter().map(|(id, bytes)| ((*id).to_owned(), bytes.as_bytes().to_vec())).collect();
        let replayed = names.iter().map(|name| (name.clone(), name.as_bytes().to_vec())).collect();
        History { sessions: &names.into(), bundles: &bundles, replayed: &replayed }.verdict()
    }

    const RIGHT: Verdict = Verdict { sessions_in: 3, bundles_out: 3, lost: 0, twice: 0, different: 0 };

    #[test]
    fn each_bundle_once_in_any_order_is_right() {
        assert_eq!(verdict(&[("c", "c"), ("a", "a"), ("b", "b")]), RIGHT);
    }

    #[test]
    fn a_session_without_a_bundle_is_lost() {
        assert_eq!(verdict(&[("a", "a"), ("c", "c")]), Verdict { bundles_out: 2, lost: 1, ..RIGHT });
    }

    #[test]
    fn every_bundle_after_the_first_is_twice_and_makes_up_for_no_other() {
        let all = [("a", "a"), ("a", "a"), ("a", "a")];
        assert_eq!(verdict(&all), Verdict { lost: 2, twice: 2, ..RIGHT });
    }

    #[test]
    fn other_bytes_are_different_be_they_the_first_or_the_second() {
        assert_eq!(verdict(&[("a", "a"), ("b", "x"), ("c", "c")]), Verdict { different: 1, ..RIGHT });
        let all = [("a", "a"), ("b", "b"), ("c", "c"), ("b", "x")];
        assert_eq!(verdict(&all), Verdict { bundles_out: 4, twice: 1, different: 1, ..RIGHT });
    }

    #[test]
    fn a_bundle_of_a_session_that_nobody_sent_is_different() {
        let all = [("a", "a"), ("b", "b"), ("c", "c"), ("d", "d")];
        assert_eq!(verdict(&all), Verdict { bundles_out: 4, different: 1, ..RIGHT });
    }
}
