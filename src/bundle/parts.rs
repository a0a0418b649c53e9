//! A bundle that is too large for one record, in parts (contract.md section 5).

use std::borrow::Cow;
use std::ops::Range;

/// More than a part's own keys take.
pub(super) const PART_KEYS_BYTES: usize = 128;

/// Where a bundle's JSON may be cut: the elements of its two lists, `request_metrics` before `responses`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    pub(super) rows: List,
    pub(super) responses: List,
}

/// A list within the JSON.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct List {
    /// Where its first element begins, or would.
    open: usize,
    /// Where each element ends; a comma follows, and the next one.
    ends: Vec<usize>,
}

/// What one part has of the two lists.
type Share = [Range<usize>; 2];

impl List {
    /// Writes a list, each element by `write`.
    pub(super) fn write<T>(
        json: &mut Vec<u8>,
        elements: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Vec<u8>, T),
    ) -> Self {
        json.push(b'[');
        let mut list = Self { open: json.len(), ends: Vec::with_capacity(elements.len()) };
        for element in elements {
            if !list.ends.is_empty() {
                json.push(b',');
            }
            write(json, element);
            list.ends.push(json.len());
        }
        json.push(b']');
        list
    }

    fn start(&self, index: usize) -> usize {
        if index == 0 { self.open } else { self.ends[index - 1] + 1 }
    }

    fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(self.open)
    }

    /// An element with its comma.
    fn element_bytes(&self, index: usize) -> usize {
        self.ends[index] - self.start(index) + 1
    }

    fn of<'a>(&self, json: &'a [u8], elements: &Range<usize>) -> &'a [u8] {
        if elements.is_empty() { b"" } else { &json[self.start(elements.start)..self.ends[elements.end - 1]] }
    }
}

impl Cuts {
    /// The records of a bundle, none over `max_bytes` unless a single element is. One that fits is written as it is.
    pub fn parts<'a>(&'a self, json: &'a [u8], max_bytes: usize) -> impl Iterator<Item = Cow<'a, [u8]>> {
        let shares = if json.len() <= max_bytes { vec![[0..0, 0..0]] } else { self.shares(json.len(), max_bytes) };
        let parts = shares.len();
        shares.into_iter().enumerate().map(move |(part, share)| match parts {
            1 => Cow::Borrowed(json),
            _ => Cow::Owned(self.part(json, part, parts, &share)),
        })
    }

    fn shares(&self, json_bytes: usize, max_bytes: usize) -> Vec<Share> {
        let lists = [&self.rows, &self.responses];
        let of_lists: usize = lists.iter().map(|list| list.end() - list.open).sum();
        let mut shares = vec![[0..0, 0..0]];
        let mut room = max_bytes.saturating_sub(json_bytes - of_lists + PART_KEYS_BYTES);
        for (which, list) in lists.into_iter().enumerate() {
            for index in 0..list.ends.len() {
                let bytes = list.element_bytes(index);
                if bytes > room {
                    let next = |which: usize| shares[shares.len() - 1][which].end;
                    let (rows, responses) = (next(0), next(1));
                    shares.push([rows..rows, responses..responses]);
                    room = max_bytes.saturating_sub(PART_KEYS_BYTES);
                }
                room = room.saturating_sub(bytes);
                shares.last_mut().expect("there is a first part")[which].end = index + 1;
            }
        }
        shares
    }

    fn part(&self, json: &[u8], part: usize, parts: usize, [rows, responses]: &Share) -> Vec<u8> {
        let (rows, responses) = (self.rows.of(json, rows), self.responses.of(json, responses));
        let keys = format!(r#"{{"part":{part},"parts":{parts},"#);
        if part > 0 {
            let [before, between] = [&br#""request_metrics":["#[..], br#"],"responses":["#];
            return [keys.as_bytes(), before, rows, between, responses, b"]}"].concat();
        }
        // All else stands here, behind the object's own brace.
        let (before, between) = (&json[1..self.rows.open], &json[self.rows.end()..self.responses.open]);
        [keys.as_bytes(), before, rows, between, responses, &json[self.responses.end()..]].concat()
    }
}
