//! One frame: what the screen says of a status. Pure.

use ureq::http::Uri;

use super::fetch::Selection;
use super::plot::{Course, course, timeline};
use super::status::{Check, Figures, Lag, Part, Session, Status, Verdict};
use super::text::{Line, Tone, fit, wrapped};
use crate::cli::foreign::Foreign;
use crate::numeric::{grouped, significant};
use crate::time::Timestamp;

/// Name, unit, measure, by what concerns users most.
const MEASURES: [(&str, &str, &str); 6] = [
    ("stream TTFT", "ms", "duplex_stream_ttft_ms"),
    ("stream TTFP", "ms", "duplex_stream_ttfp_ms"),
    ("stream RTF", "", "duplex_stream_rtf"),
    ("response TTFT", "ms", "duplex_response_ttft_ms"),
    ("response TTFP", "ms", "duplex_response_ttfp_ms"),
    ("response RTF", "", "duplex_response_rtf"),
];
/// The order in which their courses are shown, as far as there is room.
const COURSES: [usize; 6] = [3, 0, 5, 4, 1, 2];
/// Rows kept for sessions and the last line before a second course is shown.
const ROWS_BELOW: usize = 8;

/// What a frame shows besides the status.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    pub url: &'a Uri,
    pub selection: &'a Selection,
    pub width: usize,
    pub height: usize,
    /// The last line.
    pub foot: Line,
}

impl Frame<'_> {
    /// The frame's lines, none wider than the width and no more than the height.
    pub fn lines(&self, status: &Status) -> Vec<Line> {
        let mut lines = self.verdict(&status.verdict);
        lines.extend([self.title(status), replica(status), self.selected(status)]);
        lines.extend(tiles(status));
        let notes = status.verdict.notes.iter().flat_map(|note| wrapped(&note.to_string(), self.width));
        lines.extend(notes.map(|line| Line::of(Tone::Dim, line)));
        lines.push(Line::default());
        match status.part() {
            Some(part) => {
                lines.extend(table(part));
                lines.push(ends(part));
                lines.push(Line::default());
                let room = self.height.saturating_sub(lines.len() + ROWS_BELOW);
                lines.extend(self.courses(status, (room / 2).max(1)));
            }
            None => lines.push(Line::plain(self.missing(status))),
        }
        lines.extend(self.sessions(status, self.height.saturating_sub(lines.len() + 2)));
        lines.truncate(self.height.saturating_sub(1));
        lines.push(self.foot.clone());
        lines.into_iter().map(|line| line.within(self.width)).collect()
    }

    /// Whether all is well, and if not, what is wrong.
    fn verdict(&self, verdict: &Verdict) -> Vec<Line> {
        let tone = match verdict.state.0.as_str() {
            "good" => Tone::Good,
            "bad" => Tone::Bad,
            _ => Tone::Bold,
        };
        let bad = verdict.checks.iter().filter(|check| check.state.0 == "bad");
        let line = |check: &Check| {
            let Check { title, value, objective, .. } = check;
            Line::plain(format!("  {title}: {value} (has to be: {objective})"))
        };
        std::iter::once(Line::of(tone, verdict.headline.to_string())).chain(bad.map(line)).collect()
    }

    fn title(&self, status: &Status) -> Line {
        let url = self.url.to_string();
        Line::of(Tone::Bold, format!("duplex-collector {}", status.version))
            .and(Tone::Plain, format!("  {}  {}", url.trim_end_matches('/'), utc(status.now_ms)))
    }

    fn selected(&self, status: &Status) -> Line {
        let Some(run) = &status.run else { return Line::default() };
        let at = status.runs.iter().position(|id| *id == run.run_id).map_or(0, |at| at + 1);
        let asked = |text: &Option<String>| Foreign(text.clone().unwrap_or_default());
        let (model, window) = match &status.view {
            Some(view) => (view.model.clone(), view.window.clone()),
            None => (asked(&self.selection.model), asked(&self.selection.window)),
        };
        let which = format!("run {} ({at} of {})  model {model}  window {window}", run.run_id, status.runs.len());
        let last = run.last_event_ms.map(|at| format!("  last event {}", Timestamp(at).utc())).unwrap_or_default();
        let line = Line::of(Tone::Bold, which).and(Tone::Plain, last);
        if status.complete { line } else { line.and(Tone::Bad, "  older bundles are still being read") }
    }

    /// Why there are no figures, and what there is.
    fn missing(&self, status: &Status) -> String {
        let list = |all: &[Foreign]| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let asked = |text: &Option<String>| Foreign(text.clone().unwrap_or_default());
        let Selection { run, model, window } = self.selection;
        match (&status.run, &status.view) {
            (None, _) if run.is_none() || status.runs.is_empty() => "no session has finished yet".into(),
            (None, _) => format!("no run {}; there are: {}", asked(run), list(&status.runs)),
            (Some(_), None) => format!("no window {}; there are: all, {}", asked(window), list(&status.windows)),
            (Some(_), Some(_)) if model.is_none() => "no session finished in this window".into(),
            (Some(run), Some(_)) => {
                let mut models: Vec<_> = run.parts.iter().map(|part| part.model.clone()).collect();
                models.sort_unstable();
                models.dedup();
                format!("no session of model {} in this window; there are: {}", asked(model), list(&models))
            }
        }
    }

    fn courses(&self, status: &Status, most: usize) -> Vec<Line> {
        let Some(view) = &status.view else { return Vec::new() };
        let width = self.width.saturating_sub(48).clamp(10, 120);
        let line = |name: &str, unit: &str, course: Course| {
            let (least, most) = (significant(course.least), significant(course.most));
            let line = Line::plain(fit(name, 19)).and(Tone::Good, course.bars);
            line.and(Tone::Dim, format!("  {least} to {most} {unit}"))
        };
        let shown = COURSES.iter().map(|at| MEASURES[*at]).take(most).flat_map(|(name, unit, measure)| {
            let p50 = course(view, measure, |figures| figures.p50, width);
            let p99 = course(view, measure, |figures| figures.p99, width);
            let p50 = p50.map(|course| line(&format!("{name:<15}p50"), unit, course));
            p50.into_iter().chain(p99.map(|course| line(&format!("{:<15}p99", ""), unit, course)))
        });
        let mut lines: Vec<Line> = shown.collect();
        if !lines.is_empty() {
            lines.insert(
                0,
                Line::of(
                    Tone::Dim,
                    format!("over time, from 0 up; a bar is {}, the last is on the right", span(view.slot_ms)),
                ),
            );
        }
        lines
    }

    fn sessions(&self, status: &Status, most: usize) -> Vec<Line> {
        if status.last_sessions.is_empty() || most < 2 {
            return Vec::new();
        }
        let wide = self.width >= 110;
        let (id, model) = (16 + (self.width.saturating_sub(80) / 3).min(24), if wide { 23 } else { 0 });
        let rest = self.width.saturating_sub(id + model + 49);
        let row = |name: &str, of: &str, end: &str, [took, ttft, rtf]: [String; 3]| {
            let model = if wide { fit(of, model - 1) + " " } else { String::new() };
            format!("{} {model}{} {took:>7} {ttft:>14} {rtf:>10} ", fit(name, id - 1), fit(end, 12))
        };
        let head = row("last sessions", "model", "end", ["took s", "stream TTFT ms", "stream RTF"].map(String::from))
            + "· waits █ audio x cut";
        let session = |session: &Session| {
            let shown = |value: Option<f64>| value.map_or("-".into(), significant);
            let took = session.duration_ms.map(|ms| ms / 1000.0);
            let figures = [took, session.stream_ttft_ms, session.stream_rtf].map(shown);
            let model = session.model.clone().unwrap_or_default().to_string();
            Line::plain(row(&session.session_id.to_string(), &model, &session.end_reason.to_string(), figures))
                .and(Tone::Good, timeline(session, rest))
        };
        std::iter::once(Line::of(Tone::Dim, head))
            .chain(status.last_sessions.iter().take(most - 1).map(session))
            .collect()
    }
}

/// What the process that was asked is doing.
fn replica(status: &Status) -> Line {
    let reasons = |lines: &[Foreign]| lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let line = match (status.live.passes, status.ready.passes) {
        (true, true) => Line::of(Tone::Good, "live and ready"),
        (true, false) => Line::of(Tone::Bad, format!("not ready: {}", reasons(&status.ready.lines))),
        (false, _) => Line::of(Tone::Bad, format!("not live: {}", reasons(&status.live.lines))),
    };
    let restoring = match status.partitions.restoring {
        0 => String::new(),
        n => format!(", {n} restoring"),
    };
    line.and(Tone::Plain, format!("  {} partitions running{restoring}", status.partitions.running))
}

fn tiles(status: &Status) -> Vec<Line> {
    let finished = status.part().map_or("-".into(), |part| grouped(part.sessions));
    let open = status.sessions_open.map_or("-".into(), |open| grouped(open as u64));
    let lag = |lag: Lag| format!("lag {} records, {} s", grouped(lag.records as u64), significant(lag.seconds));
    let lag = status.lag.map_or("lag -".into(), lag);
    let letters: u64 = status.dead_letters.values().sum();
    let reasons: Vec<_> = status.dead_letters.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    let line = Line::plain(format!("sessions {finished} finished, {open} open here   {lag}   "));
    match letters {
        0 => vec![line.and(Tone::Plain, "dead letters 0")],
        n => vec![
            line,
            Line::of(Tone::Bad, format!("dead letters {} ({})", grouped(n), reasons.join(", ")))
                .and(Tone::Plain, "  duplex-collector dead-letters list"),
        ],
    }
}

fn table(part: &Part) -> Vec<Line> {
    let columns = ["count", "mean", "p50", "p90", "p99", "max"].map(|name| format!("{name:>10}")).concat();
    let row = |(name, unit, measure): (&str, &str, &str)| {
        let Some(figures) = part.figures.get(measure) else {
            // No sample is not zero.
            return Line::plain(format!("{} {unit:<2}{:>10}", fit(name, 14), "none"));
        };
        let Figures { count, mean, p50, p90, p99, max, approximate } = figures;
        let values = [mean, p50, p90, p99, max].map(|value| format!("{:>10}", significant(*value))).concat();
        let line = Line::plain(format!("{} {unit:<2}{count:>10}{values}", fit(name, 14)));
        if *approximate { line.and(Tone::Dim, " ~") } else { line }
    };
    std::iter::once(Line::of(Tone::Dim, format!("{}{columns}", fit("", 17)))).chain(MEASURES.map(row)).collect()
}

fn ends(part: &Part) -> Line {
    let ends: Vec<_> = part.sessions_by_end_reason.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    Line::plain(format!("ended  {}   responses {}", ends.join("  "), part.responses))
}

fn span(ms: i64) -> String {
    match ms / 1000 {
        seconds if seconds > 0 && seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// The time of day.
pub fn utc(ms: i64) -> String {
    let seconds = ms.div_euclid(1000).rem_euclid(24 * 3600);
    format!("{:02}:{:02}:{:02} UTC", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
