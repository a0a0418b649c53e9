//! What must have come out, once everything went in: the judgement of a whole run.
//!
//! A bundle is a function of the records that its session had when it ended, and of why it ended. When it ended is the
//! task's time to say, and that rests on the wall clock where a partition is silent: no two runs have the same. So each
//! record has an *interval* of task times at which it can have been processed, whatever went wrong:
//!
//! - never before what two sessions of its partition have reached up to it, or one where it is no more than a minute ahead;
//! - never after that, nor after its own arrival, later by what that was ahead of earlier arrivals and by how long a task
//!   took the partition for silent although something was there to be read, which the simulator measures.
//!
//! A session's own timestamps count for itself, so its time is later where they are. Whether a timestamp is believed rests
//! on the wall clock of whoever read it; where that is open, both can be.
//!
//! Each decision about a session (it goes on, it is over, an event is late, a marker is forgotten) is then certain or, by a
//! hair of the timeouts, open. What was done must be possible. Where every decision about a session is certain, its bundles
//! must be those of a run without faults, to the byte; otherwise each must be what its own records give.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duplex_collector::bundle::assemble;
use duplex_collector::collector::{Arrival, Labels, ReceiveClock, SessionCollector, Settings};
use duplex_collector::ids::{Offset, Partition, TopicPartition};
use duplex_collector::task::{self, CommitBatch, PartitionTask};
use duplex_collector::time::Timestamp;
use duplex_collector::wire::Decoder;

use crate::broker::{BUNDLE_PARTITIONS, LogId};
use crate::check::{Record, Session, Written};
use crate::invariant::{Invariant, Violation};
use crate::run_figures;
use crate::simulation::TOPIC;
use crate::traffic::{self, Nature};
use crate::world::World;

/// Time passes in whole milliseconds and in steps of 20.
const ROUNDING: i64 = 25;

/// From, to: both can be.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: i64,
    high: i64,
}

impl Interval {
    fn after(self, by: Duration) -> Self {
        let by = by.as_millis() as i64;
        Self { low: self.low.saturating_add(by), high: self.high.saturating_add(by) }
    }

    fn min(self, other: Self) -> Self {
        Self { low: self.low.min(other.low), high: self.high.min(other.high) }
    }

    /// Whether `deadline` can be over at this time, and whether it can be to come.
    fn may(self, deadline: Self) -> (bool, bool) {
        (self.high >= deadline.low, self.low < deadline.high)
    }
}

/// What a run came to, beside holding every invariant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    pub sessions: u64,
    pub bundles: u64,
    /// Sessions whose every decision was certain.
    pub certain: u64,
}

/// Judges a run that has come to its end.
pub fn judge(world: &World) -> Result<Verdict, Violation> {
    // What is compared with has no fault.
    #[cfg(feature = "deliberate-faults")]
    duplex_collector::fault::put_in(None);
    let mut verdict = Verdict::default();
    visible_bundles(world)?;
    run_figures::judge(world)?;
    dead_letters(world)?;
    for (partition, records) in world.checker.records.iter().enumerate() {
        let times = times(world, partition, records);
        let reference = undisturbed(partition as i32, records);
        let mut sessions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, record) in records.iter().enumerate() {
            if let Nature::Event { session, .. } = &record.arrival.nature {
                sessions.entry(session).or_default().push(place);
            }
        }
        for (id, events) in sessions {
            let session: Session = (partition as i32, id.to_owned());
            let bundles = world.checker.bundles.get(&session).map(Vec::as_slice).unwrap_or_default();
            let life = Life { id, records, times: &times, events: &events, bundles, settings: traffic::settings() };
            let is_certain = life.follow()?;
            verdict.sessions += 1;
            verdict.bundles += bundles.len() as u64;
            verdict.certain += u64::from(is_certain);
            let expected = match is_certain {
                true => reference.get(id).cloned().unwrap_or_default(),
                false => bundles.iter().map(|bundle| life.recorded(partition as i32, bundle)).collect(),
            };
            same_bytes(id, bundles, &expected)?;
        }
    }
    Ok(verdict)
}

fn same_bytes(id: &str, bundles: &[Written], expected: &[Vec<u8>]) -> Result<(), Violation> {
    let broken = |detail| Err(Violation::new(Invariant::BytesAsWithoutFaults, detail));
    if bundles.len() != expected.len() {
        return broken(format!("{id} has {} bundles, without faults {}", bundles.len(), expected.len()));
    }
    for (bundle, expected) in bundles.iter().zip(expected) {
        if bundle.json != *expected {
            let (is, should) = (String::from_utf8_lossy(&bundle.json), String::from_utf8_lossy(expected));
            return broken(format!("the bundle of {id}\n    is        {is}\n    should be {should}"));
        }
    }
    Ok(())
}

/// What a read_committed consumer of the bundles topic sees is what was committed.
fn visible_bundles(world: &World) -> Result<(), Violation> {
    let visible = (0..BUNDLE_PARTITIONS).flat_map(|p| world.broker.log(LogId::Bundles(p)).read(0));
    let mut visible: Vec<&[u8]> = visible.map(|record| record.value.unwrap_or_default()).collect();
    let mut committed: Vec<&[u8]> = world.checker.bundles.values().flatten().map(|written| &*written.json).collect();
    visible.sort_unstable();
    committed.sort_unstable();
    if visible != committed {
        let detail = format!("{} bundles are visible, {} were committed", visible.len(), committed.len());
        return Err(Violation::new(Invariant::OneBundlePerSession, detail));
    }
    Ok(())
}

fn dead_letters(world: &World) -> Result<(), Violation> {
    let records = world.checker.records.iter().flatten();
    let malformed = records.filter(|record| record.arrival.nature == Nature::DeadLetter);
    let expected: std::collections::BTreeSet<_> =
        malformed.map(|record| (record.arrival.partition, record.offset)).collect();
    let visible = world.broker.log(LogId::DeadLetters).read(0).count();
    if world.checker.letters != expected || visible != expected.len() {
        let detail =
            format!("expected {expected:?}, {visible} are visible, committed were {:?}", world.checker.letters);
        return Err(Violation::new(Invariant::DeadLettersOnce, detail));
    }
    Ok(())
}

/// When each record of a partition can have been processed, by the task's time and by its own timestamp.
struct Times {
    task: Vec<Interval>,
    own: Vec<Interval>,
    /// How long a task may have taken the partition for silent that was not.
    unseen: i64,
}

/// Whether a record's timestamp is believed.
#[derive(Clone, Copy, PartialEq)]
enum Belief {
    Yes,
    Perhaps,
    No,
}

fn belief(world: &World, record: &Record) -> Belief {
    let (tolerance, off) = (traffic::settings().clock_tolerance.as_millis() as i64, world.plan.most_off as i64);
    let Record { arrival, .. } = record;
    // Read at once by the clock furthest behind, or at the end of it all by the one furthest ahead.
    if arrival.timestamp <= arrival.at as i64 + tolerance - off {
        Belief::Yes
    } else if arrival.timestamp <= world.now as i64 + tolerance + off {
        Belief::Perhaps
    } else {
        Belief::No
    }
}

/// The latest timestamp of each session.
#[derive(Default)]
struct Reached<'a>(BTreeMap<&'a str, i64>);

impl<'a> Reached<'a> {
    fn take(&mut self, session: &'a str, timestamp: i64) {
        let latest = self.0.entry(session).or_insert(timestamp);
        *latest = timestamp.max(*latest);
    }

    /// The latest, and what another session has reached.
    fn latest_two(&self) -> (Option<i64>, Option<i64>) {
        let mut all: Vec<i64> = self.0.values().copied().collect();
        all.sort_unstable();
        (all.pop(), all.pop())
    }
}

fn times(world: &World, partition: usize, records: &[Record]) -> Times {
    const MINUTE: i64 = 60_000;
    let unseen = world.checker.unseen[partition] as i64 + ROUNDING;
    let (mut surely, mut perhaps, mut is_certain) = (Reached::default(), Reached::default(), true);
    let mut told = Interval { low: i64::MIN, high: i64::MIN };
    let mut ahead = None;
    let mut times = Times { task: Vec::new(), own: Vec::new(), unseen };
    for record in records {
        let (at, timestamp) = (record.arrival.at as i64, record.arrival.timestamp);
        let mut own = Interval { low: i64::MIN, high: i64::MIN };
        if let Nature::Event { session, .. } = &record.arrival.nature {
            let is_first = surely.0.is_empty();
            own = match belief(world, record) {
                Belief::Yes => Interval { low: timestamp, high: timestamp },
                // What tells no time is of now where nothing else tells any.
                _ if is_first => Interval { low: i64::MIN, high: world.now as i64 + world.plan.most_off as i64 },
                Belief::Perhaps => Interval { low: i64::MIN, high: timestamp },
                Belief::No => own,
            };
            if own.low > i64::MIN {
                surely.take(session, own.low);
            }
            if own.high > i64::MIN {
                perhaps.take(session, own.high);
            }
            is_certain &= own.low == own.high;
        }
        let within_a_minute = |latest: i64, second: i64| if latest - second <= MINUTE { latest } else { second };
        told.low = told.low.max(match surely.latest_two() {
            (Some(latest), Some(second)) if is_certain => within_a_minute(latest, second),
            (_, second) => second.unwrap_or(i64::MIN),
        });
        told.high = told.high.max(match perhaps.latest_two() {
            (Some(latest), Some(second)) if is_certain => within_a_minute(latest, second),
            (Some(latest), Some(second)) => latest.min(second + MINUTE),
            // Believed as soon as the partition is silent.
            (latest, _) => latest.unwrap_or(i64::MIN),
        });
        let silence = ahead.map_or(i64::MIN, |ahead: i64| at + ahead + unseen);
        times.task.push(Interval { low: told.low, high: told.high.max(silence) });
        times.own.push(own);
        if told.high > i64::MIN {
            ahead = ahead.max(Some(told.high - at));
        }
    }
    times
}

/// The bundles of a run without faults, by session: one task, every record, then silence.
fn undisturbed(partition: i32, records: &[Record]) -> BTreeMap<String, Vec<Vec<u8>>> {
    let mut task = PartitionTask::new(source(partition), Offset(0), Arc::new(traffic::settings()));
    for record in records {
        process(&mut task, record);
    }
    while task.open_sessions() > 0 {
        let reading = task.reading().expect("a session is open");
        task.advance(reading, Duration::from_secs(1), Timestamp(i64::MAX));
    }
    let mut bundles: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for bundle in task.prepare_commit().into_iter().flat_map(|batch: CommitBatch| batch.bundles) {
        bundles.entry(bundle.session_id.to_string()).or_default().push(bundle.json);
    }
    bundles
}

fn source(partition: i32) -> TopicPartition {
    TopicPartition { topic: TOPIC.into(), partition: Partition(partition) }
}

fn process(task: &mut PartitionTask, Record { offset, arrival }: &Record) {
    let record = task::Record {
        partition: Partition(arrival.partition),
        offset: Offset(*offset),
        timestamp: Some(Timestamp(arrival.timestamp)),
        key: arrival.key.as_deref(),
        value: arrival.value.as_deref(),
        headers: Vec::new(),
    };
    task.process(&record, Timestamp(arrival.at as i64));
}

/// One session id's events, and the bundles that they came to.
struct Life<'a> {
    id: &'a str,
    records: &'a [Record],
    times: &'a Times,
    /// Places in `records`.
    events: &'a [usize],
    bundles: &'a [Written],
    settings: Settings,
}

/// What a session is before its next event.
#[derive(Clone, Copy)]
enum State {
    Unknown,
    Open {
        opened: Interval,
        last: Interval,
        ended: Option<(Interval, &'static str)>,
        /// It has had its own `session.created`.
        created: bool,
        events: usize,
        place: usize,
    },
    /// Its marker may be forgotten from then on.
    Closed {
        until: Interval,
    },
}

impl Life<'_> {
    /// Follows what was done; whether there was nothing else that could have been done.
    fn follow(&self) -> Result<bool, Violation> {
        let mut state = State::Unknown;
        let mut is_certain = true;
        let mut open: Option<&Written> = None;
        let mut ahead = None;
        for place in self.events {
            let record = &self.records[*place];
            let Nature::Event { opens, ends, .. } = record.arrival.nature else { continue };
            let (time, offset) = (self.times.task[*place], record.offset);
            let own = self.times.own[*place];
            // Its own time has passed too since its last event, where it is ahead of the task's.
            let at = record.arrival.at as i64;
            let ran = ahead.map_or(i64::MIN, |ahead: i64| at + ahead + self.times.unseen);
            let now = later(time, own);
            ahead = (now.high > i64::MIN).then(|| now.high - at);
            let by_then = later(now, Interval { low: i64::MIN, high: ran });
            let bundle = self.bundles.iter().find(|bundle| (bundle.first..=bundle.last).contains(&offset));
            if let State::Open { .. } = state {
                let goes_on = bundle.is_some_and(|bundle| bundle.first < offset);
                let (deadline, mut reasons) = self.deadline(state);
                let (mut may_be_over, mut may_go_on) = by_then.may(deadline);
                is_certain &= may_be_over != may_go_on;
                if let (true, Some(how)) = (opens, restarted(state)) {
                    if !may_be_over {
                        reasons.clear();
                    }
                    if may_go_on && !reasons.contains(&how) {
                        reasons.push(how);
                    }
                    (may_be_over, may_go_on) = (true, false);
                }
                if goes_on {
                    if !may_go_on {
                        return broken(Invariant::SessionsEndInTime, self.at(offset, "goes on after its end was due"));
                    }
                } else {
                    if !may_be_over {
                        return broken(
                            Invariant::SessionsEndInTime,
                            self.at(offset, "was over before its end was due"),
                        );
                    }
                    is_certain &= reasons.len() == 1;
                    self.ended(open, reasons)?;
                    state = State::Closed {
                        until: self.end(state, deadline, time, by_then).after(self.settings.closed_retention),
                    };
                }
            }
            state = match (state, bundle) {
                (State::Unknown, None) => {
                    return broken(Invariant::EveryRecordIsAccounted, self.at(offset, "is in no bundle"));
                }
                (State::Closed { until }, None) => {
                    let (may_be_forgotten, may_be_late) = time.may(until);
                    is_certain &= opens || !may_be_forgotten;
                    if opens || !may_be_late {
                        return broken(Invariant::EveryRecordIsAccounted, self.at(offset, "is in no bundle"));
                    }
                    state
                }
                (State::Closed { until }, Some(bundle)) => {
                    let (may_be_forgotten, may_be_late) = time.may(until);
                    is_certain &= opens || !may_be_late;
                    if !opens && !may_be_forgotten {
                        return broken(Invariant::LateStaysLate, self.at(offset, "opens its session anew"));
                    }
                    self.opened(&mut open, bundle, *place, opens)?
                }
                (State::Unknown, Some(bundle)) => self.opened(&mut open, bundle, *place, opens)?,
                (State::Open { opened, last, ended, created, events, .. }, _) => State::Open {
                    opened,
                    last: later(last, now),
                    ended,
                    created: created || opens,
                    // Its own `session.created` again is a duplicate.
                    events: events + usize::from(!(created && opens)),
                    place: *place,
                },
            };
            if let (State::Open { ended: ended @ None, .. }, Some(how)) = (&mut state, ends) {
                *ended = Some((now, how));
            }
        }
        if let State::Open { .. } = state {
            let (_, reasons) = self.deadline(state);
            is_certain &= reasons.len() == 1;
            self.ended(open, reasons)?;
        }
        Ok(is_certain)
    }

    fn opened<'a>(
        &'a self,
        open: &mut Option<&'a Written>,
        bundle: &'a Written,
        place: usize,
        opens: bool,
    ) -> Result<State, Violation> {
        let offset = self.records[place].offset;
        if bundle.first != offset {
            return broken(Invariant::EveryRecordIsAccounted, self.at(offset, "is not where its bundle begins"));
        }
        *open = Some(bundle);
        let now = later(self.times.task[place], self.times.own[place]);
        Ok(State::Open { opened: now, last: now, ended: None, created: opens, events: 1, place })
    }

    /// When an open session is over, and which reasons its bundle may then give.
    fn deadline(&self, state: State) -> (Interval, Vec<&'static str>) {
        let State::Open { opened, last, ended, .. } = state else {
            unreachable!("only an open session has a deadline")
        };
        if let Some((at, how)) = ended {
            return (at.after(self.settings.grace), vec![how]);
        }
        let idle = last.after(self.settings.idle_timeout);
        let most = opened.after(self.settings.max_duration);
        let mut reasons = Vec::new();
        if idle.low <= most.high {
            reasons.push("idle_timeout");
        }
        if most.low < idle.high {
            reasons.push("max_duration");
        }
        (idle.min(most), reasons)
    }

    /// When a session that is over has ended: at the latest with the first record that is past its deadline for sure, unless
    /// it was by its own time, which is `own` at its next event.
    fn end(&self, state: State, deadline: Interval, time: Interval, own: Interval) -> Interval {
        let State::Open { place, .. } = state else { unreachable!("only an open session ends") };
        let (_, may_be_by_its_own) = time.may(deadline);
        let after = &self.times.task[place + 1..];
        let past = after.iter().find(|time| time.low >= deadline.high).map_or(time.high, |time| time.high);
        let high = past.min(time.high).max(if may_be_by_its_own { own.high } else { i64::MIN });
        Interval { low: deadline.low, high }
    }

    fn ended(&self, open: Option<&Written>, reasons: Vec<&'static str>) -> Result<(), Violation> {
        let bundle = open.expect("an open session was opened by a bundle's first record");
        if !reasons.contains(&bundle.reason.as_str()) {
            let detail = format!("{} ended by {}, which should be one of {reasons:?}", self.id, bundle.reason);
            return broken(Invariant::SessionsEndInTime, detail);
        }
        Ok(())
    }

    /// The bytes of a bundle with its end as it was recorded.
    fn recorded(&self, partition: i32, bundle: &Written) -> Vec<u8> {
        let records = self.events.iter().map(|place| &self.records[*place]);
        let mut session: Option<SessionCollector> = None;
        let mut decoder = Decoder::new(self.settings.limits.record_bytes);
        for Record { offset, arrival } in records.filter(|r| (bundle.first..=bundle.last).contains(&r.offset)) {
            let timestamp = Timestamp(arrival.timestamp);
            let arrived = Arrival {
                received_at_s: timestamp.as_secs_f64(),
                clock: ReceiveClock::KafkaTimestamp,
                timestamp: Some(timestamp),
                now: timestamp,
                offset: Offset(*offset),
                labels: Labels::default(),
            };
            let value = arrival.value.as_deref().expect("an event has a value");
            let event = decoder.decode(value).expect("an event can be read");
            let session = session.get_or_insert_with(|| SessionCollector::open(self.id.into(), &arrived));
            session.handle_event(&event, &arrived, &self.settings);
        }
        let Some(mut session) = session else { return Vec::new() };
        session.finish(&self.settings);
        let reason = serde_json::from_value(bundle.reason.as_str().into()).expect("a reason");
        assemble(&session, reason, &source(partition)).json
    }

    fn at(&self, offset: i64, what: &str) -> String {
        format!("{}: the event at offset {offset} {what}", self.id)
    }
}

/// How an open session ends with a `session.created`; `None` where that is its own.
fn restarted(state: State) -> Option<&'static str> {
    match state {
        State::Open { created: true, events: 1, .. } | State::Open { created: false, ended: None, .. } => None,
        State::Open { ended, .. } => Some(ended.map_or("restarted", |(_, how)| how)),
        State::Unknown | State::Closed { .. } => None,
    }
}

fn later(one: Interval, other: Interval) -> Interval {
    Interval { low: one.low.max(other.low), high: one.high.max(other.high) }
}

fn broken<T>(invariant: Invariant, detail: String) -> Result<T, Violation> {
    Err(Violation::new(invariant, detail))
}
