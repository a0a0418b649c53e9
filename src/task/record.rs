//! A record as the shell hands it to a task: borrowed, with Kafka's own fields.

use crate::ids::{Offset, Partition};
use crate::time::Timestamp;

/// One record of the events topic (contract.md section 1).
#[derive(Clone, Debug)]
pub struct Record<'a> {
    pub partition: Partition,
    pub offset: Offset,
    /// `CreateTime` or `LogAppendTime`; absent on topics without timestamps.
    pub timestamp: Option<Timestamp>,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// In the producer's order; a name may come twice.
    pub headers: Vec<Header<'a>>,
}

/// One record header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header<'a> {
    pub name: &'a str,
    pub value: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// The first header of that name; one without a value, or with an empty one, is as if it were not there.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut values = self.headers.iter().filter(|header| header.name == name).filter_map(|header| header.value);
        values.find(|value| !value.is_empty())
    }

    /// Bytes that a copy of it takes: its key, its value, its headers and their places.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let header = |header: &Header<'_>| {
            size_of::<(String, Option<Vec<u8>>)>() + header.name.len() + header.value.map_or(0, <[u8]>::len)
        };
        self.key.map_or(0, <[u8]>::len)
            + self.value.map_or(0, <[u8]>::len)
            + self.headers.iter().map(header).sum::<usize>()
    }

    /// That header, where it is UTF-8.
    #[must_use]
    pub fn header_str(&self, name: &str) -> Option<&'a str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }
}
