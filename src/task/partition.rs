//! The sessions of one partition: records and time in, one [`CommitBatch`] at a time out.
//!
//! ```text
//! restore(changelog) -> process(record)* | advance(elapsed)* -> prepare_commit -> (the transaction) -> next batch
//! ```
//! What is prepared is taken for committed. A transaction that fails takes the whole task with it: the next one is
//! restored from what the changelog says.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Bundle, ChangelogEntry, CommitBatch, Counts, DeadLetter, Outcome};
use super::changelog::{ChangelogState, ClosedMarker, Key};
use super::checkpoint::{Checkpoint, RestoreError};
use super::clock::TaskClock;
use super::identify;
use super::record::Record;
use crate::bundle::assemble;
use crate::collector::{Arrival, EndReason, Handled, SessionCollector, Settings, Snapshot};
use crate::fault::{self, Fault};
use crate::ids::{Offset, Partition, SessionId, TopicPartition};
use crate::time::Timestamp;
use crate::wire::{Decoder, Error, Event, Kind};

/// How far a silent partition's time may run ahead of its snapshot before that is written again.
const TIME_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes that the ends of sessions may put into one batch: after a jump in time all are due at once.
const MAX_FIRED_BYTES: usize = 16 << 20;

/// What a tombstone or marker counts for among those.
const TOMBSTONE_BYTES: usize = 64;

/// The state of one partition of the events topic.
#[derive(Debug)]
pub struct PartitionTask {
    source: TopicPartition,
    settings: Arc<Settings>,
    decoder: Decoder,
    clock: TaskClock,
    sessions: HashMap<SessionId, Open>,
    closed: HashMap<SessionId, ClosedMarker>,
    /// The earliest time each session or marker is to be looked at. A deadline that moves away leaves its timer, which
    /// then looks too early; one that comes nearer, as at a session's end, moves it.
    timers: BTreeSet<(Timestamp, SessionId)>,
    next_offset: Offset,
    pending: Pending,
    /// The time as the changelog has it.
    recorded_time: Option<Timestamp>,
}

#[derive(Debug)]
struct Open {
    session: SessionCollector,
    timer: Timestamp,
    /// How many of its responses the changelog has; `None` where it has nothing of the session.
    in_changelog: Option<u32>,
    /// It changed since the last batch.
    is_dirty: bool,
    /// The last of its records that its restored state holds. Without transactions offsets may be behind the state, and
    /// records up to this one come again.
    restored_to: Option<Offset>,
}

/// What the next commit will carry.
#[derive(Debug, Default)]
struct Pending {
    bundles: Vec<Bundle>,
    changelog: Vec<ChangelogEntry>,
    dead_letters: Vec<DeadLetter>,
    counts: Counts,
    dirty: Vec<SessionId>,
    bytes: usize,
}

impl PartitionTask {
    /// A task that starts at `next_offset` with the state that its changelog told.
    ///
    /// # Errors
    /// When the state can't be read.
    pub fn restore(
        source: TopicPartition,
        next_offset: Offset,
        mut state: ChangelogState,
        settings: Arc<Settings>,
    ) -> Result<Self, RestoreError> {
        let closed = std::mem::take(&mut state.closed);
        let recorded_time = state.now;
        let mut task = Self {
            source,
            decoder: Decoder::new(settings.limits.record_bytes),
            clock: recorded_time.map(TaskClock::at).unwrap_or_default(),
            sessions: HashMap::new(),
            closed: HashMap::new(),
            timers: BTreeSet::new(),
            next_offset,
            pending: Pending::default(),
            recorded_time,
            settings,
        };
        for (id, marker) in closed.into_iter().filter(|_| !fault::is_on(Fault::ForgetClosedMarkers)) {
            task.timers.insert((marker.until, id.clone()));
            task.closed.insert(id, marker);
        }
        for session in state.into_sessions()? {
            let (id, in_changelog) = (session.id().clone(), Some(session.response_count()));
            let timer = session.next_deadline(&task.settings);
            let restored_to = Some(session.head().last_offset);
            task.timers.insert((timer, id.clone()));
            task.sessions.insert(id, Open { session, timer, in_changelog, is_dirty: false, restored_to });
        }
        Ok(task)
    }

    /// A task without a past.
    #[must_use]
    pub fn new(source: TopicPartition, next_offset: Offset, settings: Arc<Settings>) -> Self {
        Self::restore(source, next_offset, ChangelogState::default(), settings).expect("an empty state can be read")
    }

    /// Takes the next record. `wall` is the wall clock, which bounds the record's timestamp.
    pub fn process(&mut self, record: &Record<'_>, wall: Timestamp) {
        let now = self.clock.observe(record.timestamp, wall, self.settings.clock_tolerance);
        self.fire_timers(now, MAX_FIRED_BYTES);
        self.next_offset = record.offset.next();
        let counts = &mut self.pending.counts;
        counts.records += 1;
        let Some(value) = record.value else {
            counts.tombstones += 1;
            return;
        };
        counts.bytes += value.len() as u64;
        // The decoder may have to keep a mended copy, which the event then borrows.
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(0));
        if let Err(e) = decoder.decode(value).and_then(|event| self.handle(record, &event, now)) {
            self.dead_letter(record, value, e);
        }
        self.decoder = decoder;
    }

    /// Lets time pass while the partition has nothing to read.
    pub fn advance(&mut self, elapsed: Duration) {
        if let Some(now) = self.clock.advance(elapsed) {
            self.fire_timers(now, MAX_FIRED_BYTES);
        }
    }

    /// Ends every open session: the capture is over.
    pub fn end_of_input(&mut self) {
        let now = self.clock.now().unwrap_or_default();
        self.fire_timers(now, usize::MAX);
        let mut open: Vec<_> = self.sessions.keys().cloned().collect();
        open.sort_unstable();
        for id in open {
            let reason = self.sessions[&id].session.end_of_input();
            self.finish(&id, reason, now);
        }
    }

    /// What changed since the last batch; `None` when nothing did, for an empty transaction must not be committed.
    pub fn prepare_commit(&mut self) -> Option<CommitBatch> {
        let now = self.clock.now();
        let time_is_due = match (now, self.recorded_time) {
            (Some(now), Some(recorded)) => now.since(recorded) >= TIME_SNAPSHOT_INTERVAL && !self.sessions.is_empty(),
            _ => false,
        };
        let Pending { bundles, mut changelog, dead_letters, counts, mut dirty, .. } = std::mem::take(&mut self.pending);
        if counts.records == 0 && bundles.is_empty() && changelog.is_empty() && !time_is_due {
            return None;
        }
        dirty.sort_unstable();
        for id in dirty.iter().skip(usize::from(fault::is_on(Fault::SkipDirtySession))) {
            // Those that ended since have their tombstones already; one that ended and opened again comes twice.
            if let Some(open) = self.sessions.get_mut(id).filter(|open| open.is_dirty) {
                open.is_dirty = false;
                let Snapshot { head, responses, held, released } = open.session.snapshot();
                let id = id.as_str();
                // Without transactions a crash can come between any two: a head's parts are there before it, and go after.
                changelog.extend(responses.into_iter().map(|(index, part)| Key::Response(id, index).put_bytes(part)));
                changelog.extend(held.map(|(index, part)| Key::Held(id, index).put_bytes(part)));
                changelog.push(Key::Session(id).put_bytes(head));
                changelog.extend((0..released).map(|index| Key::Held(id, index).tombstone()));
                open.in_changelog = Some(open.session.response_count());
            }
        }
        self.recorded_time = now;
        let count = |sessions: usize| u64::try_from(sessions).expect("a count fits");
        changelog.push(Key::Checkpoint.put(&Checkpoint {
            now: now.filter(|_| !fault::is_on(Fault::ForgetTime)),
            next_offset: self.next_offset,
            open_sessions: count(self.sessions.len()),
            closed_sessions: count(self.closed.len()),
        }));
        Some(CommitBatch {
            partition: self.source.partition,
            next_offset: self.next_offset,
            bundles,
            changelog,
            dead_letters,
            counts,
        })
    }

    /// Bytes that the next batch holds already, state not counted: a reason to commit early.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.pending.bytes
    }

    /// The next offset to read.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// How many sessions are open.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    fn handle(&mut self, record: &Record<'_>, event: &Event<'_>, now: Timestamp) -> Result<(), Error> {
        let id = identify::session_id(record, event)?;
        let (received_at_s, clock) = identify::receive_time(record, event)?;
        let labels = identify::labels(record);
        let arrival = Arrival { received_at_s, clock, timestamp: record.timestamp, now, offset: record.offset, labels };
        if self.timers.first().is_some_and(|(due, _)| *due <= now) {
            self.end_if_overdue(&id, now);
        }
        let outcome = if let Some(open) = self.sessions.get_mut(&*id) {
            if open.restored_to.is_some_and(|offset| record.offset <= offset) {
                *self.pending.counts.events.entry((event.kind.class(), Outcome::Duplicate)).or_default() += 1;
                return Ok(());
            }
            let handled = open.session.handle_event(event, &arrival, &self.settings);
            let deadline = open.session.next_deadline(&self.settings);
            if deadline < open.timer {
                let id = open.session.id();
                self.timers.remove(&(open.timer, id.clone()));
                self.timers.insert((deadline, id.clone()));
                open.timer = deadline;
            }
            if !open.is_dirty {
                open.is_dirty = true;
                self.pending.dirty.push(open.session.id().clone());
            }
            handled.into()
        } else if self.closed.get(&*id).is_some_and(|marker| marker.until > now) && event.kind != Kind::SessionCreated {
            Outcome::Late
        } else if self.sessions.len() >= self.settings.limits.sessions {
            Outcome::Refused
        } else {
            self.open(SessionId::from(&*id), event, &arrival)
        };
        *self.pending.counts.events.entry((event.kind.class(), outcome)).or_default() += 1;
        Ok(())
    }

    fn open(&mut self, id: SessionId, event: &Event<'_>, arrival: &Arrival<'_>) -> Outcome {
        if let Some(marker) = self.closed.remove(&id) {
            self.timers.remove(&(marker.until, id.clone()));
            self.pending.changelog.push(Key::Closed(id.as_str()).tombstone());
        }
        let mut session = SessionCollector::open(id.clone(), arrival);
        let handled = session.handle_event(event, arrival, &self.settings);
        let timer = session.next_deadline(&self.settings);
        self.timers.insert((timer, id.clone()));
        self.sessions
            .insert(id.clone(), Open { session, timer, in_changelog: None, is_dirty: true, restored_to: None });
        self.pending.counts.sessions_opened += 1;
        self.pending.dirty.push(id);
        handled.into()
    }

    /// Ends what is due, up to `max_bytes` of effects: the rest is for the next record or the next span of silence, and so
    /// for another transaction.
    fn fire_timers(&mut self, now: Timestamp, max_bytes: usize) {
        while let Some((due, _)) = self.timers.first().filter(|(due, _)| *due <= now) {
            if self.pending.bytes >= max_bytes {
                return;
            }
            let due = *due;
            let (_, id) = self.timers.pop_first().expect("the first timer is there");
            if let Some(open) = self.sessions.get_mut(&id) {
                match open.session.handle_timeout(now, &self.settings) {
                    Some(reason) => self.finish(&id, reason, now),
                    None => {
                        open.timer = open.session.next_deadline(&self.settings);
                        self.timers.insert((open.timer, id));
                    }
                }
            } else if self.closed.get(&id).is_some_and(|marker| marker.until == due) {
                self.closed.remove(&id);
                self.pending.changelog.push(Key::Closed(id.as_str()).tombstone());
            }
        }
    }

    /// A session whose time is up ends before its next event, though its timer waits for its turn.
    fn end_if_overdue(&mut self, id: &str, now: Timestamp) {
        let reason = self.sessions.get(id).and_then(|open| open.session.handle_timeout(now, &self.settings));
        if let Some(reason) = reason {
            self.finish(&SessionId::from(id), reason, now);
        }
    }

    /// Writes a session's bundle and leaves a marker in its place.
    fn finish(&mut self, id: &SessionId, reason: EndReason, now: Timestamp) {
        let Open { mut session, timer, in_changelog, .. } = self.sessions.remove(id).expect("a session ends once");
        self.timers.remove(&(timer, id.clone()));
        let held = session.held_snapshots();
        session.finish(&self.settings);
        let assembled = assemble(&session, reason, &self.source, self.settings.limits.bundle_bytes);
        let pending = &mut self.pending;
        let recorded = pending.changelog.len();
        if let Some(responses) = in_changelog.filter(|_| !fault::is_on(Fault::KeepFinishedSession)) {
            pending.changelog.push(Key::Session(id.as_str()).tombstone());
            pending.changelog.extend((0..responses).map(|index| Key::Response(id.as_str(), index).tombstone()));
            pending.changelog.extend((0..held).map(|index| Key::Held(id.as_str(), index).tombstone()));
        }
        let marker = ClosedMarker { until: now + self.settings.closed_retention };
        pending.changelog.push(Key::Closed(id.as_str()).put(&marker));
        if fault::is_on(Fault::ForgetIdleEnd) && reason == EndReason::IdleTimeout {
            pending.changelog.truncate(recorded);
        }
        self.timers.insert((marker.until, id.clone()));
        self.closed.insert(id.clone(), marker);
        pending.counts.truncated += u64::from(assembled.truncated);
        pending.counts.unreadable_values += assembled.unreadable_values;
        *pending.counts.sessions_finished.entry(reason).or_default() += 1;
        pending.bytes +=
            assembled.json.len() + TOMBSTONE_BYTES * (2 + in_changelog.unwrap_or(0) as usize + held as usize);
        pending.bundles.push(Bundle { session_id: id.clone(), end_reason: reason, json: assembled.json });
    }

    fn dead_letter(&mut self, record: &Record<'_>, value: &[u8], e: Error) {
        let pending = &mut self.pending;
        *pending.counts.dead_letters.entry(e.reason).or_default() += 1;
        pending.bytes += value.len();
        pending.dead_letters.push(DeadLetter {
            reason: e.reason,
            detail: e.detail,
            partition: self.source.partition,
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            payload: value.to_vec(),
            headers: record.headers.iter().map(|h| (h.name.to_owned(), h.value.map(<[u8]>::to_vec))).collect(),
        });
    }

    /// The partition it serves.
    #[must_use]
    pub fn partition(&self) -> Partition {
        self.source.partition
    }
}

impl From<Handled> for Outcome {
    fn from(handled: Handled) -> Self {
        match handled {
            Handled::Accepted => Self::Accepted,
            Handled::Duplicate => Self::Duplicate,
        }
    }
}
