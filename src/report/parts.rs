//! Puts bundles of several records together (contract.md section 5), in whatever order their parts come.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::time::Timestamp;

/// How a record begins that is a part.
const PART: &[u8] = br#"{"part":"#;

/// Bytes of parts that wait for others. A transaction writes all of a bundle, so only those wait for good of which others
/// were deleted; past this the largest is forgotten, and counts as a record that is no bundle.
const MOST_BYTES: usize = 256 << 20;

/// Parts of bundles that are not complete yet, by record key.
#[derive(Debug, Default)]
pub struct Parts {
    waiting: BTreeMap<Vec<u8>, Waiting>,
    bytes: usize,
}

/// The parts of one bundle.
#[derive(Debug, Default)]
struct Waiting {
    of: usize,
    /// With the time at which each was written.
    parts: BTreeMap<usize, (Timestamp, Vec<u8>)>,
}

/// What is read of a part.
#[derive(Deserialize)]
struct Part<'a> {
    part: usize,
    parts: usize,
    #[serde(borrow)]
    request_metrics: &'a RawValue,
    #[serde(borrow)]
    responses: &'a RawValue,
}

impl Parts {
    /// Takes a record of the bundles topic and when it was written. Gives the whole bundle with the last of its parts to come,
    /// and when its first part was written, whatever their order. Any other record is given as it is.
    pub fn take<'a>(
        &mut self,
        key: &[u8],
        record: &'a [u8],
        written_at: Timestamp,
    ) -> Option<(Cow<'a, [u8]>, Timestamp)> {
        let part = if record.starts_with(PART) { read(record) } else { None };
        let Some((part, of)) = part.map(|part| (part.part, part.parts)) else {
            return Some((Cow::Borrowed(record), written_at));
        };
        let waiting = self.waiting.entry(key.to_vec()).or_default();
        // The rest of the one before was deleted.
        if waiting.of != of || waiting.parts.contains_key(&part) {
            self.bytes -= waiting.bytes();
            *waiting = Waiting { of, parts: BTreeMap::new() };
        }
        self.bytes += record.len();
        waiting.parts.insert(part, (written_at, record.to_vec()));
        if waiting.parts.len() < of {
            return (self.bytes > MOST_BYTES).then(|| self.forget_largest(written_at));
        }
        let complete = self.waiting.remove(key)?;
        self.bytes -= complete.bytes();
        let written_at = complete.parts.first_key_value().map_or(written_at, |(_, (written_at, _))| *written_at);
        Some((Cow::Owned(complete.whole().unwrap_or_default()), written_at))
    }
}

impl Parts {
    /// No bundle, in the place of the one that waits with the most bytes.
    fn forget_largest<'a>(&mut self, written_at: Timestamp) -> (Cow<'a, [u8]>, Timestamp) {
        let largest = self.waiting.iter().max_by_key(|(_, waiting)| waiting.bytes()).map(|(key, _)| key.clone());
        if let Some(forgotten) = largest.and_then(|key| self.waiting.remove(&key)) {
            self.bytes -= forgotten.bytes();
        }
        (Cow::Borrowed(&[]), written_at)
    }
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.parts.values().map(|(_, part)| part.len()).sum()
    }

    /// The first part with the rows and responses of all; `None` where they are not parts of one bundle.
    fn whole(&self) -> Option<Vec<u8>> {
        let parts = self.parts.values().map(|(_, part)| read(part)).collect::<Option<Vec<_>>>()?;
        let first = str::from_utf8(&self.parts.get(&0)?.1).ok()?;
        let list = |lists: Vec<&RawValue>| {
            let inner = lists.iter().map(|list| &list.get()[1..list.get().len() - 1]);
            inner.filter(|elements| !elements.is_empty()).collect::<Vec<_>>().join(",")
        };
        // Where the insides of the first part's lists begin and end.
        let inside = |list: &RawValue| {
            let start = list.get().as_ptr() as usize - first.as_ptr() as usize;
            (start + 1, start + list.get().len() - 1)
        };
        let (rows, responses) = (inside(parts[0].request_metrics), inside(parts[0].responses));
        let own_keys = first.match_indices(',').nth(1)?.0 + 1;
        let all_else = [own_keys..rows.0, rows.1..responses.0, responses.1..first.len()];
        let [before, between, after] = all_else.map(|range| first.get(range));
        let rows = list(parts.iter().map(|part| part.request_metrics).collect());
        let responses = list(parts.iter().map(|part| part.responses).collect());
        Some(["{", before?, &rows, between?, &responses, after?].concat().into_bytes())
    }
}

fn read(record: &[u8]) -> Option<Part<'_>> {
    let part: Part<'_> = serde_json::from_slice(record).ok()?;
    let is_list = |list: &RawValue| list.get().starts_with('[');
    (is_list(part.request_metrics) && is_list(part.responses)).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(part: usize, parts: usize, rows: &str, responses: &str) -> Vec<u8> {
        let (before, between) =
            if part == 0 { (r#""schema_version":1,"#, r#""session":{"a":[2,3]},"#) } else { ("", "") };
        let lists = format!(r#"{before}"request_metrics":[{rows}],{between}"responses":[{responses}]"#);
        format!(r#"{{"part":{part},"parts":{parts},{lists}}}"#).into_bytes()
    }

    fn take<'a>(parts: &mut Parts, key: &[u8], record: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        parts.take(key, record, Timestamp(7)).map(|(bundle, _)| bundle)
    }

    #[test]
    fn parts_of_several_bundles_come_together_in_any_order_and_others_stay_as_they_are() {
        let mut parts = Parts::default();
        let none = |taken: Option<Cow<'_, [u8]>>| assert_eq!(taken, None);
        none(take(&mut parts, b"a", &part(1, 3, "", "5,6")));
        none(take(&mut parts, b"a", &part(0, 3, "1,2", "")));
        none(take(&mut parts, b"b", &part(0, 2, "", "")));
        assert_eq!(take(&mut parts, b"c", b"{}").as_deref(), Some(&b"{}"[..]));
        let a = take(&mut parts, b"a", &part(2, 3, "3", "7")).expect("complete").into_owned();
        let expected = r#"{"schema_version":1,"request_metrics":[1,2,3],"session":{"a":[2,3]},"responses":[5,6,7]}"#;
        assert_eq!(String::from_utf8_lossy(&a), expected);
        assert!(take(&mut parts, b"b", &part(1, 2, "8", "9")).is_some());
        assert_eq!((parts.waiting.len(), parts.bytes), (0, 0));
    }

    #[test]
    fn a_bundle_was_written_when_its_first_part_was_whichever_came_last() {
        let mut parts = Parts::default();
        assert_eq!(parts.take(b"a", &part(1, 2, "", ""), Timestamp(8)), None);
        let (_, written_at) = parts.take(b"a", &part(0, 2, "", ""), Timestamp(7)).expect("complete");
        assert_eq!(written_at, Timestamp(7));
    }

    #[test]
    fn what_lost_a_part_gives_way_to_the_next_of_its_key() {
        let mut parts = Parts::default();
        assert_eq!(take(&mut parts, b"a", &part(0, 2, "1", "")), None);
        assert_eq!(take(&mut parts, b"a", &part(0, 2, "2", "")), None);
        let whole = take(&mut parts, b"a", &part(1, 2, "3", "")).expect("complete").into_owned();
        assert!(String::from_utf8_lossy(&whole).contains("[2,3]"));
        assert_eq!(parts.bytes, 0);
    }

    #[test]
    fn what_is_no_part_of_ours_is_given_on() {
        let mut parts = Parts::default();
        for strange in
            [&br#"{"part":1}"#[..], br#"{"part":0,"parts":1,"request_metrics":1,"responses":2}"#, br#"{"part":"#]
        {
            assert_eq!(take(&mut parts, b"a", strange).as_deref(), Some(strange));
        }
        // A part 0 is missing: no bundle, and the view says so.
        assert_eq!(take(&mut parts, b"a", &part(1, 1, "", "")).as_deref(), Some(&b""[..]));
    }
}
