//! The sessions of one partition: records and time in, one [`CommitBatch`] at a time out.
//!
//! ```text
//! restore(changelog) -> process(record)* | advance(elapsed)* -> prepare_commit -> (the transaction) -> next batch
//! ```
//! What is prepared is taken for committed. A transaction that fails takes the whole task with it: the next one is
//! restored from what the changelog says.

use std::sync::Arc;
use std::time::Duration;

use super::batch::{Ahead, Bundle, ChangelogEntry, CommitBatch, Counts, DeadLetter, FinishedSession, Outcome};
use super::changelog::{ChangelogState, ClosedMarker, Key};
use super::checkpoint::{Checkpoint, RestoreError};
use super::clock::{Reading, TaskClock};
use super::closed_sessions::ClosedSessions;
use super::identify;
use super::open_sessions::{Open, OpenSessions};
use super::record::Record;
use crate::bundle::assemble;
use crate::collector::{Arrival, EndReason, Handled, SessionCollector, Settings, Snapshot};
use crate::fault::{self, Fault};
use crate::ids::{Offset, Partition, SessionId, TopicId, TopicPartition};
use crate::time::Timestamp;
use crate::wire::{Decoder, Error, Event, Kind};

/// How far a silent partition's time may run ahead of its snapshot before that is written again.
const TIME_SNAPSHOT_INTERVAL: Duration = Duration::from_secs(10);

/// Bytes that the ends of sessions may come to with one record: after a jump in time all are due at once.
const MAX_ENDED_BYTES: usize = 16 << 20;

/// What a tombstone or marker counts for among those.
const TOMBSTONE_BYTES: usize = 64;

/// The state of one partition of the events topic.
#[derive(Debug)]
pub struct PartitionTask {
    source: TopicPartition,
    settings: Arc<Settings>,
    decoder: Decoder,
    clock: TaskClock,
    open: OpenSessions,
    closed: ClosedSessions,
    next_offset: Offset,
    pending: Pending,
    /// The time that a restart goes on from, as the changelog has it.
    recorded_time: Option<Timestamp>,
    /// The offset as the changelog has it, and the group with it.
    recorded_offset: Option<Offset>,
    /// The topic whose records made the state, where it is known.
    topic: Option<TopicId>,
}

/// What a partition's state comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateSize {
    pub open_sessions: usize,
    /// Bytes that it takes at most, markers of finished sessions included, as `limits.state_bytes` counts them.
    pub bytes: usize,
}

/// What the next commit will carry.
#[derive(Debug, Default)]
struct Pending {
    bundles: Vec<Bundle>,
    changelog: Vec<ChangelogEntry>,
    dead_letters: Vec<DeadLetter>,
    counts: Counts,
    furthest_ahead: Option<Ahead>,
    finished: Vec<FinishedSession>,
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
        let clock = std::mem::take(&mut state.clock);
        let recorded_offset = state.checkpoint.as_ref().map(|checkpoint| checkpoint.next_offset);
        let topic = state.checkpoint.take().and_then(|checkpoint| checkpoint.topic);
        let mut task = Self {
            source,
            decoder: Decoder::new(settings.limits.record_bytes),
            recorded_time: clock.told(),
            clock,
            open: OpenSessions::new(),
            closed: ClosedSessions::default(),
            next_offset,
            pending: Pending::default(),
            recorded_offset,
            topic,
            settings,
        };
        for (id, marker) in closed.into_iter().filter(|_| !fault::is_on(Fault::ForgetClosedMarkers)) {
            task.closed.insert(id, marker);
        }
        for session in state.into_sessions() {
            let session = session?;
            let (responses, last_offset) = (session.response_count(), session.head().last_offset);
            task.open.insert(session, Some(responses), Some(last_offset), &task.settings);
        }
        Ok(task)
    }

    /// A task without a past.
    #[must_use]
    pub fn new(source: TopicPartition, next_offset: Offset, settings: Arc<Settings>) -> Self {
        Self::restore(source, next_offset, ChangelogState::default(), settings).expect("an empty state can be read")
    }

    /// Takes the next record. `wall` is the wall clock: a timestamp too far past it says nothing.
    pub fn process(&mut self, record: &Record<'_>, wall: Timestamp) {
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
        if let Err(e) = decoder.decode(value).and_then(|event| self.handle(record, &event, wall)) {
            self.dead_letter(record, value, e);
        }
        self.decoder = decoder;
    }

    /// Takes note that everything below `position` was read, be it no record: control records and aborted transactions
    /// take offsets as well.
    pub fn reached(&mut self, position: Offset) {
        if !fault::is_on(Fault::CommitPastLastRecord) {
            self.next_offset = self.next_offset.max(position);
        }
    }

    /// Takes note of the topic that the records are of.
    ///
    /// # Errors
    /// When those before were of another one.
    pub fn is_of(&mut self, topic: &TopicId) -> Result<(), RestoreError> {
        let was = self.topic.get_or_insert_with(|| topic.clone());
        if was == topic { Ok(()) } else { Err(RestoreError::AnotherTopic { was: was.clone(), is: topic.clone() }) }
    }

    /// Whether its time waits for a second session to reach the latest timestamp.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.clock.waits()
    }

    /// What [`Self::advance`] goes on from; `None` before the first record.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        self.clock.reading()
    }

    /// Lets `elapsed` pass since a reading, up to `wall`, the wall clock, while the partition has nothing to read or its time
    /// [waits](Self::waits).
    pub fn advance(&mut self, since: Reading, elapsed: Duration, wall: Timestamp) {
        let now = self.clock.advance(since, elapsed, wall);
        self.end_due(now, MAX_ENDED_BYTES);
        if let Some((id, own_now)) = self.clock.ahead()
            && let Some(reason) = self.open.overdue(id, own_now, &self.settings)
        {
            self.finish(&SessionId::from(id), own_now, |_| reason);
        }
    }

    /// Ends every open session: the capture is over.
    pub fn end_of_input(&mut self) {
        let now = self.clock.believe_latest().unwrap_or_default();
        self.end_due(now, usize::MAX);
        let mut open: Vec<_> = self.open.ids().cloned().collect();
        open.sort_unstable();
        for id in open {
            self.finish(&id, now, |session| session.end_of_input());
        }
    }

    /// What changed since the last batch; `None` when nothing did, for an empty transaction must not be committed. The offset
    /// alone is a change, as is the very first one: where no offset is committed, nobody misses what is deleted unread, and
    /// one that stays below control records is taken for lost once they are deleted.
    pub fn prepare_commit(&mut self) -> Option<CommitBatch> {
        let now = self.clock.told();
        let time_is_due = match (now, self.recorded_time) {
            (Some(now), Some(recorded)) => now.since(recorded) >= TIME_SNAPSHOT_INTERVAL && self.open.len() > 0,
            _ => false,
        };
        let is_moved = self.recorded_offset.is_none_or(|recorded| self.next_offset > recorded);
        let Pending { bundles, mut changelog, dead_letters, counts, furthest_ahead, finished, mut dirty, .. } =
            std::mem::take(&mut self.pending);
        if counts.records == 0 && bundles.is_empty() && changelog.is_empty() && !time_is_due && !is_moved {
            return None;
        }
        dirty.sort_unstable();
        for id in dirty.iter().skip(usize::from(fault::is_on(Fault::SkipDirtySession))) {
            // Those that ended since have their tombstones already; one that ended and opened again comes twice.
            if let Some(open) = self.open.get_mut(id.as_str()).filter(|open| open.is_dirty) {
                open.is_dirty = false;
                let Snapshot { head, responses, held, released } = open.session.snapshot();
                let id = id.as_str();
                // Without transactions a crash can come between any two: a head's parts are there before it, and go after.
                changelog.extend(responses.into_iter().map(|(index, part)| Key::Response(id, index).put_bytes(part)));
                changelog.extend(held.into_iter().map(|(index, part)| Key::Held(id, index).put_bytes(part)));
                changelog.push(Key::Session(id).put_bytes(head));
                changelog.extend((0..released).map(|index| Key::Held(id, index).tombstone()));
                open.in_changelog = Some(open.session.response_count());
            }
        }
        self.recorded_time = now;
        self.recorded_offset = Some(self.next_offset);
        let count = |sessions: usize| u64::try_from(sessions).expect("a count fits");
        changelog.push(Key::Checkpoint.put(&Checkpoint {
            clock: if fault::is_on(Fault::ForgetTime) { TaskClock::default() } else { self.clock.clone() },
            next_offset: self.next_offset,
            open_sessions: count(self.open.len()),
            closed_sessions: count(self.closed.len()),
            topic: self.topic.clone(),
        }));
        Some(CommitBatch {
            partition: self.source.partition,
            next_offset: self.next_offset,
            bundles,
            changelog,
            dead_letters,
            counts,
            furthest_ahead,
            finished,
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
        self.open.len()
    }

    /// What it holds.
    #[must_use]
    pub fn state_size(&self) -> StateSize {
        StateSize { open_sessions: self.open.len(), bytes: self.open.bytes() + self.closed.bytes() }
    }

    fn handle(&mut self, record: &Record<'_>, event: &Event<'_>, wall: Timestamp) -> Result<(), Error> {
        let id = identify::session_id(record, event)?;
        let (received_at_s, clock) = identify::receive_time(record, event)?;
        let labels = identify::labels(record);
        // What is over by the partition's time is over for all, what is over by this record's own for its session alone.
        let own_now = self.observe(&id, record, wall);
        let now = self.clock.now().unwrap_or(own_now);
        self.end_due(now, MAX_ENDED_BYTES);
        if let Some(reason) = self.open.overdue(&id, own_now, &self.settings) {
            self.finish(&SessionId::from(&*id), own_now, |_| reason);
        } else if event.kind == Kind::SessionCreated
            && let Some(open) = self.open.get_mut(&id)
            && open.restored_to.is_none_or(|offset| record.offset > offset)
            && let Some(reason) = open.session.restarted_by(event)
        {
            self.finish(&SessionId::from(&*id), own_now, |_| reason);
        }
        let (timestamp, offset) = (record.timestamp, record.offset);
        let arrival = Arrival { received_at_s, clock, timestamp, now: own_now, offset, labels };
        let settings = Arc::clone(&self.settings);
        let taken = self.open.update(&id, &settings, |open| {
            if open.restored_to.is_some_and(|offset| record.offset <= offset) {
                return Outcome::Duplicate;
            }
            if !open.is_dirty {
                open.is_dirty = true;
                self.pending.dirty.push(open.session.id().clone());
            }
            open.session.handle_event(event, &arrival, &settings).into()
        });
        let outcome = match taken {
            Some(outcome) => outcome,
            None if event.kind != Kind::SessionCreated && self.closed.has(&id, now) => Outcome::Late,
            None => self.open_session(SessionId::from(&*id), event, &arrival),
        };
        *self.pending.counts.events.entry((event.kind.class(), outcome)).or_default() += 1;
        self.make_room(now);
        Ok(())
    }

    /// Lets a session's record tell the time; that of its session then.
    fn observe(&mut self, id: &str, record: &Record<'_>, wall: Timestamp) -> Timestamp {
        let told = record.timestamp.filter(|told| *told <= wall + self.settings.clock_tolerance);
        if let (Some(timestamp), None) = (record.timestamp, told) {
            let ahead = Ahead { offset: record.offset, by: timestamp.since(wall) };
            self.pending.counts.timestamps_ahead += 1;
            self.pending.furthest_ahead = self.pending.furthest_ahead.max(Some(ahead));
        }
        self.clock.observe(id, told, wall)
    }

    fn open_session(&mut self, id: SessionId, event: &Event<'_>, arrival: &Arrival<'_>) -> Outcome {
        if self.closed.remove(id.as_str()) {
            self.pending.changelog.push(Key::Closed(id.as_str()).tombstone());
        }
        let mut session = SessionCollector::open(id.clone(), arrival);
        let handled = session.handle_event(event, arrival, &self.settings);
        self.open.insert(session, None, None, &self.settings);
        self.open.get_mut(id.as_str()).expect("it was just opened").is_dirty = true;
        self.pending.counts.sessions_opened += 1;
        self.pending.dirty.push(id);
        handled.into()
    }

    /// Ends and forgets what is due, up to `max_bytes` of effects: the rest is for the next record or the next span of
    /// silence, and so for another transaction.
    fn end_due(&mut self, now: Timestamp, max_bytes: usize) {
        // Of this call, and not of all that waits: when commits happen must not matter.
        let most = self.pending.bytes.saturating_add(max_bytes);
        while self.pending.bytes < most
            && let Some((id, reason)) = self.open.next_due(now, &self.settings)
        {
            self.finish(&id, now, |_| reason);
        }
        while self.pending.bytes < most
            && let Some(id) = self.closed.pop_due(now)
        {
            self.forget(&id);
        }
    }

    /// Ends sessions before their time where there are more than a limit allows, or they take more: as much as
    /// [`Self::end_due`] may end, which only limits that were lowered since the last restart make too little.
    ///
    /// Whatever is due anyway goes first.
    fn make_room(&mut self, now: Timestamp) {
        let most = self.pending.bytes.saturating_add(MAX_ENDED_BYTES);
        while self.pending.bytes < most && self.open.is_over(&self.settings.limits) {
            if let Some((id, reason)) = self.open.next_due(now, &self.settings) {
                self.finish(&id, now, |_| reason);
            } else {
                let id = self.open.first_to_leave(&self.settings.limits).expect("who takes room is there");
                self.finish(&id, now, SessionCollector::evict);
            }
        }
    }

    fn forget(&mut self, id: &SessionId) {
        self.pending.bytes += TOMBSTONE_BYTES + id.as_str().len();
        self.pending.changelog.push(Key::Closed(id.as_str()).tombstone());
    }

    /// Writes a session's bundle and leaves a marker in its place.
    fn finish(&mut self, id: &SessionId, now: Timestamp, end: impl FnOnce(&mut SessionCollector) -> EndReason) {
        let Open { mut session, in_changelog, .. } = self.open.remove(id).expect("a session ends once");
        let reason = end(&mut session);
        let ended_at = session.ended_at(reason, now, &self.settings);
        let held = session.held_snapshots();
        session.finish(&self.settings);
        let assembled = assemble(&session, reason, &self.source);
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
        self.closed.insert(id.clone(), marker);
        pending.counts.truncated += u64::from(assembled.truncated);
        pending.counts.unreadable_values += assembled.unreadable_values;
        *pending.counts.sessions_finished.entry(reason).or_default() += 1;
        if let Some(fault) = assembled.measures.clock_fault {
            *pending.counts.clock_faults.entry(fault).or_default() += 1;
        }
        pending.bytes += assembled.json.len() + assembled.measures.bytes();
        let records = 2 + in_changelog.unwrap_or(0) as usize + held as usize;
        pending.bytes += (TOMBSTONE_BYTES + id.as_str().len()) * records;
        pending.finished.push(FinishedSession { ended_at, measures: assembled.measures });
        pending.bundles.push(Bundle {
            session_id: id.clone(),
            end_reason: reason,
            json: assembled.json,
            cuts: assembled.cuts,
        });
        while self.closed.bytes() > self.settings.limits.marker_bytes()
            && let Some((id, marker)) = self.closed.pop_oldest()
        {
            self.pending.counts.markers_evicted += u64::from(marker.until > now);
            self.forget(&id);
        }
    }

    fn dead_letter(&mut self, record: &Record<'_>, value: &[u8], e: Error) {
        let pending = &mut self.pending;
        *pending.counts.dead_letters.entry(e.reason).or_default() += 1;
        pending.bytes += size_of::<DeadLetter>() + record.bytes();
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
