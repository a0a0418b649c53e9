//! A partition's log, as a broker keeps it: records, transaction markers, watermarks, compaction.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of a transaction, one for each that ever was.
pub type TransactionId = u64;

/// What stands at an offset.
#[derive(Clone, Debug)]
pub enum Body {
    Data {
        key: Option<Vec<u8>>,
        /// No value is a tombstone.
        value: Option<Vec<u8>>,
        transaction: Option<TransactionId>,
    },
    /// A control record: it takes an offset and is never delivered.
    Marker,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub offset: i64,
    /// When it was appended, by the virtual clock.
    pub at: u64,
    /// The producer's timestamp.
    pub timestamp: i64,
    pub body: Body,
    /// A tombstone that the cleaner has passed may go from then on.
    horizon: Option<u64>,
}

/// A record as a reader gets it.
#[derive(Clone, Copy, Debug)]
pub struct Visible<'a> {
    pub offset: i64,
    pub at: u64,
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub transaction: Option<TransactionId>,
}

/// One partition.
#[derive(Debug, Default)]
pub struct Log {
    entries: Vec<Entry>,
    /// What was below was deleted.
    start: i64,
    end: i64,
    /// First offset of each transaction that has no marker here.
    open: BTreeMap<TransactionId, i64>,
    aborted: BTreeSet<TransactionId>,
    /// Tombstones that the leader lacks, until this time.
    lacking: (BTreeSet<i64>, u64),
}

impl Log {
    /// The low watermark: the first offset that can be read.
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Deletes what stands below `offset`, as retention does, and who asks for it.
    pub fn delete_below(&mut self, offset: i64) {
        self.start = self.start.max(offset.min(self.end));
        self.entries.retain(|entry| entry.offset >= self.start);
    }

    /// The high watermark: the next offset to be written.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The last stable offset: below it every transaction is decided.
    pub fn stable_end(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.end)
    }

    pub fn append(&mut self, body: Body, timestamp: i64, at: u64) -> i64 {
        if let Body::Data { transaction: Some(transaction), .. } = body {
            self.open.entry(transaction).or_insert(self.end);
        }
        self.entries.push(Entry { offset: self.end, at, timestamp, body, horizon: None });
        self.end += 1;
        self.end - 1
    }

    /// Writes the marker that decides a transaction.
    pub fn mark(&mut self, transaction: TransactionId, commit: bool, at: u64) {
        self.open.remove(&transaction);
        if !commit {
            self.aborted.insert(transaction);
        }
        self.append(Body::Marker, at as i64, at);
    }

    /// What a read_committed reader sees from `from` on, up to the last stable offset.
    pub fn read(&self, from: i64) -> impl Iterator<Item = Visible<'_>> {
        let start = self.entries.partition_point(|entry| entry.offset < from);
        let stable = self.stable_end();
        let decided = self.entries[start..].iter().take_while(move |entry| entry.offset < stable);
        decided.filter_map(visible).filter(|record| record.transaction.is_none_or(|id| !self.aborted.contains(&id)))
    }

    /// A replica leads until then that was away while the others' cleaners took the tombstones along with what they delete,
    /// and which has all that they delete.
    pub fn lack_tombstones(&mut self, until: u64) {
        let tombstones = self.read(0).filter(|record| record.value.is_none()).map(|record| record.offset).collect();
        self.lacking = (tombstones, until);
    }

    /// What the leader of this time gives of [`Self::read`].
    pub fn read_of_leader(&self, from: i64, now: u64) -> impl Iterator<Item = Visible<'_>> {
        let (tombstones, until) = &self.lacking;
        self.read(from).filter(move |record| now >= *until || !tombstones.contains(&record.offset))
    }

    /// Until when the leader lacks tombstones.
    pub fn lacks_until(&self) -> u64 {
        self.lacking.1
    }

    /// The record at an offset, whatever became of its transaction.
    pub fn at(&self, offset: i64) -> Option<Visible<'_>> {
        let place = self.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        visible(&self.entries[place])
    }

    /// Transactions that are not decided here.
    pub fn open_transactions(&self) -> usize {
        self.open.len()
    }

    /// What the log cleaner does to the part below `below`: of each key only the last committed value stays, a tombstone
    /// for `tombstones_kept` after the cleaner first came by (so a reader that saw what it deletes has that long to get to
    /// it). Offsets stay what they are. Returns how many entries went.
    pub fn compact(&mut self, below: i64, now: u64, tombstones_kept: u64) -> usize {
        let below = below.min(self.stable_end());
        let aborted = &self.aborted;
        let is_committed = |transaction: &Option<TransactionId>| transaction.is_none_or(|id| !aborted.contains(&id));
        let mut last: HashMap<Vec<u8>, i64> = HashMap::new();
        for entry in self.entries.iter().take_while(|entry| entry.offset < below) {
            if let Body::Data { key: Some(key), transaction, .. } = &entry.body
                && is_committed(transaction)
            {
                last.insert(key.clone(), entry.offset);
            }
        }
        let before = self.entries.len();
        self.entries.retain_mut(|entry| match &entry.body {
            _ if entry.offset >= below => true,
            Body::Data { key: Some(key), value, transaction } => {
                let is_last = is_committed(transaction) && last.get(key) == Some(&entry.offset);
                let horizon = *entry.horizon.get_or_insert(now + tombstones_kept);
                is_last && (value.is_some() || now < horizon)
            }
            Body::Data { key: None, .. } | Body::Marker => false,
        });
        before - self.entries.len()
    }
}

fn visible(entry: &Entry) -> Option<Visible<'_>> {
    match &entry.body {
        Body::Data { key, value, transaction } => Some(Visible {
            offset: entry.offset,
            at: entry.at,
            timestamp: entry.timestamp,
            key: key.as_deref(),
            value: value.as_deref(),
            transaction: *transaction,
        }),
        Body::Marker => None,
    }
}
