//! The open sessions of a partition: by id, by the time at which each is to be looked at, and by who makes room first.

use std::collections::{BTreeSet, HashMap};

use crate::collector::{EndReason, Limits, SessionCollector, Settings};
use crate::ids::{Offset, SessionId};
use crate::time::Timestamp;

/// What a session takes beside its own state: its places here, and what allocators add. A table and a tree are half full at
/// worst.
const PLACES_BYTES: usize = size_of::<Open>() - size_of::<SessionCollector>()
    + 64
    + 2 * (size_of::<(SessionId, Box<Open>)>()
        + size_of::<(Timestamp, SessionId)>()
        + size_of::<(Offset, SessionId)>());

/// Talkers wait in the first of these queues while they have said one thing, in the second with two or three, in the next
/// with up to seven, and so on. What a session said counts less where it holds much.
const TALKERS: usize = 11;

/// A session that has grown by less is never a hoard, and all that it said counts.
const SMALL_BYTES: usize = 4 << 10;

/// Past that one is a hoard that has grown by more for each of its events,
const HOARD_BYTES_PER_EVENT: u64 = 256;

/// and one that takes more than one part in so many of the room for open sessions.
const HOARD_SHARE: usize = 256;

/// All hoards may together take one part in so many of that room.
const HOARDS_SHARE: usize = 2;

/// Hoards wait in queues behind the talkers', by their size: each queue's are twice as large as those of the one before.
const QUEUES: usize = TALKERS + 32;

/// A session, and what its task knows of it.
#[derive(Debug)]
pub(super) struct Open {
    pub session: SessionCollector,
    /// How many of its responses the changelog has; `None` where it has nothing of the session.
    pub in_changelog: Option<u32>,
    /// It changed since the last batch.
    pub is_dirty: bool,
    /// The last of its records that its restored state holds. Without transactions offsets may be behind the state, and
    /// records up to this one come again.
    pub restored_to: Option<Offset>,
    timer: Timestamp,
    queue: usize,
    /// Its place in the queue: the offset of its last event, or of one before.
    place: Offset,
    bytes: usize,
}

/// The open sessions.
#[derive(Debug)]
pub(super) struct OpenSessions {
    /// Boxed: while a table grows, the old one and the new one are both there.
    by_id: HashMap<SessionId, Box<Open>>,
    /// The earliest time each session is to be looked at. A deadline that moves away leaves its timer, which then looks
    /// too early; one that comes nearer, as at a session's end, moves it.
    timers: BTreeSet<(Timestamp, SessionId)>,
    /// Who makes room, by queue, the one silent for longest first. A session that spoke again keeps its place until it is
    /// first, and takes its true one then.
    queues: [BTreeSet<(Offset, SessionId)>; QUEUES],
    bytes: usize,
    hoarded: usize,
    /// The offset of the latest event of any of them.
    latest: Offset,
}

impl OpenSessions {
    pub fn new() -> Self {
        let queues = std::array::from_fn(|_| BTreeSet::new());
        Self { by_id: HashMap::new(), timers: BTreeSet::new(), queues, bytes: 0, hoarded: 0, latest: Offset(0) }
    }

    pub fn insert(
        &mut self,
        session: SessionCollector,
        in_changelog: Option<u32>,
        restored_to: Option<Offset>,
        settings: &Settings,
    ) {
        let (timer, queue, bytes) =
            (session.next_deadline(settings), queue_of(&session, &settings.limits), bytes(&session));
        let (id, place) = (session.id().clone(), session.head().last_offset);
        self.latest = self.latest.max(place);
        let open = Open { session, in_changelog, is_dirty: false, restored_to, timer, queue, place, bytes };
        self.timers.insert((timer, id.clone()));
        self.queues[queue].insert((place, id.clone()));
        self.bytes += bytes;
        self.hoarded += hoard(queue, bytes);
        self.by_id.insert(id, Box::new(open));
    }

    pub fn remove(&mut self, id: &SessionId) -> Option<Open> {
        let open = *self.by_id.remove(id)?;
        self.timers.remove(&(open.timer, id.clone()));
        self.queues[open.queue].remove(&(open.place, id.clone()));
        self.bytes -= open.bytes;
        self.hoarded -= hoard(open.queue, open.bytes);
        Some(open)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Open> {
        self.by_id.get_mut(id).map(|open| &mut **open)
    }

    /// Lets a session take an event, and sees to its places; `None` where it is not open.
    pub fn update<T>(&mut self, id: &str, settings: &Settings, take: impl FnOnce(&mut Open) -> T) -> Option<T> {
        let open = self.by_id.get_mut(id)?;
        let taken = take(open);
        let deadline = open.session.next_deadline(settings);
        if deadline < open.timer {
            let id = open.session.id();
            self.timers.remove(&(open.timer, id.clone()));
            self.timers.insert((deadline, id.clone()));
            open.timer = deadline;
        }
        let (queue, bytes) = (queue_of(&open.session, &settings.limits), bytes(&open.session));
        self.latest = self.latest.max(open.session.head().last_offset);
        self.bytes = self.bytes - open.bytes + bytes;
        self.hoarded = self.hoarded - hoard(open.queue, open.bytes) + hoard(queue, bytes);
        open.bytes = bytes;
        if queue != open.queue {
            let id = open.session.id();
            self.queues[open.queue].remove(&(open.place, id.clone()));
            (open.queue, open.place) = (queue, open.session.head().last_offset);
            self.queues[queue].insert((open.place, id.clone()));
        }
        Some(taken)
    }

    /// Whether this session is over at `now`, though its timer may wait for its turn, and why.
    pub fn overdue(&self, id: &str, now: Timestamp, settings: &Settings) -> Option<EndReason> {
        self.timers.first().filter(|(due, _)| *due <= now)?;
        self.by_id.get(id)?.session.handle_timeout(now, settings)
    }

    /// The next session that is over at `now`, and why.
    pub fn next_due(&mut self, now: Timestamp, settings: &Settings) -> Option<(SessionId, EndReason)> {
        loop {
            let (_, id) = self.timers.first().filter(|(due, _)| *due <= now)?;
            let open = self.by_id.get_mut(id).expect("a timer is of an open session");
            if let Some(reason) = open.session.handle_timeout(now, settings) {
                return Some((id.clone(), reason));
            }
            open.timer = open.session.next_deadline(settings);
            let (_, id) = self.timers.pop_first().expect("the first timer is there");
            self.timers.insert((open.timer, id));
        }
    }

    /// Whether there are more than may be, or they take more.
    pub fn is_over(&self, limits: &Limits) -> bool {
        self.len() > limits.sessions || self.bytes > limits.open_session_bytes()
    }

    /// The session that makes room first.
    ///
    /// It is the largest hoard where bytes are wanting and hoards take more than their share; else the one that is silent
    /// for longest for what it said, as [`patience`] has it. So a flood of ids makes room for itself, and a session is not
    /// the first to leave with its own event. Silence is a distance of offsets: neither clocks nor restarts decide.
    pub fn first_to_leave(&mut self, limits: &Limits) -> Option<SessionId> {
        let room = limits.open_session_bytes();
        if self.bytes > room && self.hoarded > room / HOARDS_SHARE {
            return self.largest_hoard();
        }
        let latest = self.latest;
        let silence = |queue: usize, place: Offset| {
            let records = u128::from(latest.0.saturating_sub(place.0).unsigned_abs());
            records << (patience(TALKERS - 1) - patience(queue))
        };
        // Of equals the one that said less: it comes last.
        let talkers = (0..TALKERS)
            .rev()
            .filter_map(|queue| self.longest_silent(queue).map(|(place, id)| (silence(queue, place), id)))
            .max_by_key(|(silence, _)| *silence);
        talkers.map(|(_, id)| id).or_else(|| self.largest_hoard())
    }

    fn largest_hoard(&mut self) -> Option<SessionId> {
        (TALKERS..QUEUES).rev().find_map(|queue| self.longest_silent(queue)).map(|(_, id)| id)
    }

    fn longest_silent(&mut self, queue: usize) -> Option<(Offset, SessionId)> {
        let queue = &mut self.queues[queue];
        loop {
            let (place, id) = queue.first()?;
            let open = self.by_id.get_mut(id).expect("who waits in a queue is open");
            let last_offset = open.session.head().last_offset;
            if *place == last_offset {
                return Some((last_offset, id.clone()));
            }
            let (_, id) = queue.pop_first().expect("the first is there");
            open.place = last_offset;
            queue.insert((last_offset, id));
        }
    }

    pub fn ids(&self) -> impl Iterator<Item = &SessionId> {
        self.by_id.keys()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Bytes that they take at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn bytes(session: &SessionCollector) -> usize {
    PLACES_BYTES + session.state_bytes()
}

fn queue_of(session: &SessionCollector, limits: &Limits) -> usize {
    let head = session.head();
    let (grown, events) = (session.grown_bytes().max(SMALL_BYTES), u64::from(head.tallies.events.max(1)));
    let hoards = grown as u64 / events > HOARD_BYTES_PER_EVENT || grown > limits.open_session_bytes() / HOARD_SHARE;
    if hoards && grown > SMALL_BYTES {
        let doublings = (grown / SMALL_BYTES).ilog2() as usize;
        (TALKERS + doublings).min(QUEUES - 1)
    } else if head.ended.is_some() {
        // It only waits for stragglers.
        0
    } else {
        let said = u128::from(events) * SMALL_BYTES as u128 / grown as u128;
        (said.max(1).ilog2() as usize).min(TALKERS - 1)
    }
}

/// How long a talker may be silent, in doublings: who said two things eight times as long as who said one, as in a flood of
/// ids; and from there twice as long for twice as much.
fn patience(queue: usize) -> usize {
    if queue == 0 { 0 } else { queue + 2 }
}

fn hoard(queue: usize, bytes: usize) -> usize {
    if queue >= TALKERS { bytes } else { 0 }
}
