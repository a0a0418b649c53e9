//! What is looked at, one function each, and where healthy ends.

use std::time::Duration;

use super::{Check, Lull, PlottedLimit, RECENT, Recent, Replica, State};
use crate::collector::EndReason;
use crate::numeric::{grouped, significant};
use crate::report::measure::Measure;
use crate::report::status::{PartStatus, RunStatus};
use crate::report::summary::Part;
use crate::time::Timestamp;

// Where healthy ends. Those that deploy/prometheus/alerts.yml has too are the same there, which a test holds.
const TTFT_MS: f64 = 1_000.0;
/// Of responses, over [`TTFT_MS`].
const SLOW_SHARE: f64 = 0.05;
/// p99 of responses.
const TTFP_MS: f64 = 2_000.0;
/// p99 of responses.
const RTF: f64 = 1.0;
/// Of sessions, with another end reason than `closed`.
const NOT_CLOSED_SHARE: f64 = 0.05;
/// Of sessions, with times of clocks that do not fit together.
const CLOCK_FAULT_SHARE: f64 = 0.01;
/// Of records.
const DEAD_LETTER_SHARE: f64 = 0.01;
const LAG_SECONDS: f64 = 60.0;
/// How long so many sessions may be open and read without one that finishes.
const NONE_FINISHES: Duration = Duration::from_secs(30 * 60);
const MANY_OPEN: f64 = 10.0;
/// How long the bundles topic may be out of reach.
const STALE: Duration = Duration::from_secs(30);
/// A share or a quantile of fewer samples says nothing.
const MIN_SAMPLES: u64 = 30;

/// Everything that is looked at, in the order in which it is shown.
pub(super) fn all(
    status: &RunStatus,
    part: Option<&Part>,
    replica: &Replica,
    lull: Option<&Lull>,
    now: Timestamp,
) -> Vec<Check> {
    let view = status.view.as_ref();
    vec![
        of_replica(replica),
        of_traffic(status, replica, lull, now),
        of_ttft(view),
        of_quantile("ttfp", "First audio (TTFP)", part, Measure::ResponseTtfp, TTFP_MS, " ms", "slow first audio"),
        of_quantile("rtf", "Real time (RTF)", part, Measure::ResponseRtf, RTF, "", "slower than real time"),
        of_ends(part),
        of_figures(part),
        of_dead_letters(&replica.recent),
        of_events(&replica.recent),
        of_lag(replica),
        of_reading(status, now),
    ]
}

fn check(name: &'static str, title: &'static str, objective: impl Into<String>) -> Check {
    let (state, objective) = (State::Unknown, objective.into());
    Check { name, title, state, value: "no sample".into(), objective, plotted: None, wrong: String::new() }
}

impl Check {
    fn found(self, value: impl Into<String>, is_bad: bool, wrong: impl Into<String>) -> Self {
        let state = if is_bad { State::Bad } else { State::Good };
        Self { state, value: value.into(), wrong: wrong.into(), ..self }
    }

    fn not_known(self, value: impl Into<String>) -> Self {
        Self { value: value.into(), ..self }
    }

    fn plotted(self, measure: Measure, limit: f64) -> Self {
        Self { plotted: Some(PlottedLimit { measure: measure.name(), limit }), ..self }
    }
}

fn of_replica(replica: &Replica) -> Check {
    let (value, wrong) = match (replica.live, replica.ready) {
        (true, true) => ("live, ready", ""),
        (true, false) => ("not ready", "this replica is not ready"),
        (false, _) => ("not live", "this replica is not live"),
    };
    check("replica", "This replica", "live and ready").found(value, !wrong.is_empty(), wrong)
}

fn of_traffic(status: &RunStatus, replica: &Replica, lull: Option<&Lull>, now: Timestamp) -> Check {
    let check = check("traffic", "Traffic", "sessions finish");
    let (open, recent) = (replica.sessions_open.unwrap_or_default(), replica.recent);
    let silent = Duration::from_millis(recent.none_finished_ms);
    if open >= MANY_OPEN && recent.events > 0 && silent >= NONE_FINISHES {
        let value = format!("{} open here, none finished for {} min", grouped(open as u64), silent.as_secs() / 60);
        return check.found(value, true, "sessions are open but none finishes");
    }
    match (lull, status.run.as_ref().and_then(|run| run.last_event)) {
        (Some(lull), _) => check.not_known(lull.value.as_str()),
        (None, Some(last)) => check.found(format!("last event {}", told_at(last, now)), false, ""),
        (None, None) => check,
    }
}

fn of_ttft(view: Option<&PartStatus>) -> Check {
    let check = check("ttft", "First text (TTFT)", format!("at most {} of responses", percent(SLOW_SHARE)))
        .plotted(Measure::ResponseTtft, TTFT_MS);
    let Some(bins) = view.and_then(|view| view.shapes.get(Measure::ResponseTtft.name())) else { return check };
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    // A bin begins at the limit, which is a power of ten, but for rounding.
    let slow: u64 = bins.iter().filter(|bin| bin.from > 0.999 * TTFT_MS).map(|bin| bin.count).sum();
    if all < MIN_SAMPLES {
        return check.not_known(format!("{all} of {MIN_SAMPLES} responses"));
    }
    let share = slow as f64 / all as f64;
    check.found(format!("{} over {} s", percent(share), TTFT_MS / 1000.0), share > SLOW_SHARE, "slow first text")
}

fn of_quantile(
    name: &'static str,
    title: &'static str,
    part: Option<&Part>,
    measure: Measure,
    limit: f64,
    unit: &str,
    wrong: &str,
) -> Check {
    let check = check(name, title, format!("at most {}{unit}", grouped(limit as u64))).plotted(measure, limit);
    match part.and_then(|part| part.figures.get(&measure)) {
        None => check,
        Some(figures) if (figures.count as u64) < MIN_SAMPLES => {
            check.not_known(format!("{} of {MIN_SAMPLES} responses", figures.count))
        }
        Some(figures) => {
            let is_bad = figures.p99 > limit;
            check.found(format!("p99 {}{unit}", beside(limit, figures.p99)), is_bad, wrong)
        }
    }
}

fn of_ends(part: Option<&Part>) -> Check {
    let check = check("ends", "Session ends", format!("at most {}", percent(NOT_CLOSED_SHARE)));
    match part {
        None => check,
        Some(part) if part.sessions < MIN_SAMPLES => {
            check.not_known(format!("{} of {MIN_SAMPLES} sessions", part.sessions))
        }
        Some(part) => {
            let closed = part.sessions_by_end_reason.get(&EndReason::Closed).copied().unwrap_or_default();
            let share = (part.sessions - closed) as f64 / part.sessions as f64;
            check.found(format!("{} not closed", percent(share)), share > NOT_CLOSED_SHARE, "broken sessions")
        }
    }
}

fn of_figures(part: Option<&Part>) -> Check {
    let objective = format!("none truncated, at most {} with clocks that do not fit", percent(CLOCK_FAULT_SHARE));
    let check = check("figures", "Whole figures", objective);
    let Some(part) = part else { return check };
    let (truncated, faults) = (part.traits.sessions_truncated, part.traits.sessions_with_clock_faults);
    let share = faults as f64 / part.sessions as f64;
    let (mut seen, mut wrong) = (Vec::new(), Vec::new());
    if truncated > 0 {
        seen.push(format!("{} truncated", sessions(truncated)));
        wrong.push("truncated sessions");
    }
    if faults > 0 {
        seen.push(format!("{} with clocks that do not fit", sessions(faults)));
    }
    if share > CLOCK_FAULT_SHARE && part.sessions >= MIN_SAMPLES {
        wrong.push("clocks that do not fit together");
    }
    let value = if seen.is_empty() { "all whole".into() } else { seen.join(", ") };
    check.found(value, !wrong.is_empty(), wrong.join(", "))
}

fn of_dead_letters(recent: &Recent) -> Check {
    let objective = format!("at most {} dead letters, this replica", percent(DEAD_LETTER_SHARE));
    let check = check("dead_letters", "Readable records", objective);
    if recent.records == 0 {
        return check.not_known(format!("none read in {}", minutes(RECENT)));
    }
    let share = recent.dead_letters as f64 / recent.records as f64;
    let value = format!("{} of {} are dead letters", grouped(recent.dead_letters), grouped(recent.records));
    let is_bad = share > DEAD_LETTER_SHARE && recent.dead_letters >= MIN_SAMPLES;
    check.found(value, is_bad, "records that can't be read")
}

fn of_events(recent: &Recent) -> Check {
    let check = check("events", "Known events", "all of shapes that are read, this replica");
    let (foreign, unsupported) = (recent.events_of_no_duplex_protocol, recent.events_unsupported);
    if foreign >= MIN_SAMPLES {
        let value =
            format!("{} events, none of a duplex protocol: is topics.events the right topic?", grouped(foreign));
        return check.found(value, true, "no event is of a duplex protocol");
    }
    if unsupported > 0 {
        let value = format!(
            "{} of a shape that is not read, such as response.audio.delta or an envelope",
            grouped(unsupported)
        );
        return check.found(value, true, "events of a shape that is not read");
    }
    match recent.events {
        0 => check.not_known(format!("none read in {}", minutes(RECENT))),
        events => check.found(format!("{} in {}", grouped(events), minutes(RECENT)), false, ""),
    }
}

fn of_lag(replica: &Replica) -> Check {
    let check = check("lag", "Lag", format!("at most {LAG_SECONDS} s, this replica"));
    match replica.lag_seconds {
        None => check.not_known("not known yet"),
        Some(lag) => check.found(format!("{} s", beside(LAG_SECONDS, lag)), lag > LAG_SECONDS, "this replica lags"),
    }
}

/// Whether the bundles topic has been out of reach for too long.
pub(super) fn is_stale(status: &RunStatus, now: Timestamp) -> bool {
    status.current_at_ms.is_some_and(|at| now.since(at) > STALE)
}

fn of_reading(status: &RunStatus, now: Timestamp) -> Check {
    let check = check("reading", "Bundles read", "all of the topic, this replica");
    match status.current_at_ms {
        Some(at) if is_stale(status, now) => {
            check.found(format!("not since {}", told_at(at, now)), true, "the figures stand still")
        }
        Some(_) if status.complete => check.found("up to now", false, ""),
        _ => check.not_known("older ones are being read"),
    }
}

pub(super) fn sessions(n: u64) -> String {
    format!("{} session{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A time, without its date where that is today's.
pub(super) fn told_at(at: Timestamp, now: Timestamp) -> String {
    const DATE: usize = "2026-12-01 ".len();
    let [at, now] = [at.utc(), now.utc()];
    if at[..DATE] == now[..DATE] { at[DATE..].to_owned() } else { at }
}

fn minutes(length: Duration) -> String {
    format!("{} min", length.as_secs() / 60)
}

/// A value in three digits, or in all where those would be the limit that it passes.
fn beside(limit: f64, value: f64) -> String {
    let short = significant(value);
    if value > limit && short == significant(limit) { value.to_string() } else { short }
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", significant(100.0 * share))
}
