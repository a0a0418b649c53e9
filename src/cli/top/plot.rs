//! Small plots of characters: a course over time, and what a session's responses did when.

use super::status::{Figures, Session, View};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One figure over the last slots, `width` at most.
pub struct Course {
    pub bars: String,
    pub least: f64,
    pub most: f64,
}

/// The course of a measure's figure; `None` where it has no sample. A slot without one stays blank.
pub fn course(view: &View, measure: &str, figure: impl Fn(&Figures) -> f64, width: usize) -> Option<Course> {
    let last = view.slots.last()?.start_ms;
    let slots = i64::try_from(width).unwrap_or(i64::MAX);
    let first = view.slots.first()?.start_ms.max(last.saturating_sub((slots - 1).saturating_mul(view.slot_ms)));
    let values: Vec<(i64, f64)> = view
        .slots
        .iter()
        .filter(|slot| slot.start_ms >= first)
        .filter_map(|slot| Some(((slot.start_ms - first) / view.slot_ms.max(1), figure(slot.figures.get(measure)?))))
        .collect();
    let least = values.iter().map(|(_, value)| *value).reduce(f64::min)?;
    let most = values.iter().map(|(_, value)| *value).reduce(f64::max)?;
    let mut bars: Vec<char> = Vec::new();
    for (at, value) in values {
        let at = usize::try_from(at).unwrap_or(0).min(width.saturating_sub(1));
        bars.resize(at.max(bars.len()), ' ');
        bars.push(bar(value, most));
    }
    Some(Course { bars: bars.into_iter().collect(), least, most })
}

/// Of eight heights from 0 to `most`.
fn bar(value: f64, most: f64) -> char {
    let height = if most > 0.0 { (value / most * 8.0).ceil() } else { 1.0 };
    BARS[(height as usize).clamp(1, 8) - 1]
}

/// A session from its stream start on: `·` a response that is awaited, `█` its audio, `x` where it was cancelled, `!` where
/// it failed. Blank where the times are not known.
pub fn timeline(session: &Session, width: usize) -> String {
    let ends = session.responses.iter().flat_map(|response| [response.last_audio_ms, response.ended_ms]);
    let total = ends.flatten().chain(session.duration_ms).fold(0.0, f64::max);
    let mut line = vec![' '; width];
    let column = |ms: f64| ((ms / total * width as f64) as usize).min(width.saturating_sub(1));
    let mut fill = |from: Option<f64>, to: Option<f64>, with: char| {
        if let (Some(from), Some(to), true) = (from, to, total > 0.0 && width > 0) {
            line[column(from.min(to))..=column(to)].fill(with);
        }
    };
    for response in &session.responses {
        let until = response.first_audio_ms.or(response.ended_ms);
        fill(response.created_ms, until, '·');
        fill(response.first_audio_ms, response.last_audio_ms, '█');
        match response.status.0.as_str() {
            "cancelled" => fill(response.ended_ms, response.ended_ms, 'x'),
            "failed" => fill(response.ended_ms, response.ended_ms, '!'),
            _ => {}
        }
    }
    if session.more_responses > 0
        && let Some(end) = line.last_mut()
    {
        *end = '…';
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn view(slots: &[(i64, f64)]) -> View {
        let slot = |(start_ms, p50): &(i64, f64)| {
            let figures =
                json!({"count": 1, "mean": 0, "p50": p50, "p90": 0, "p99": 0, "max": 0, "approximate": false});
            json!({"start_ms": start_ms, "figures": {"m": figures}})
        };
        from_value(json!({
            "model": "all", "window": "all", "slot_ms": 10, "slots": slots.iter().map(slot).collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn bars(slots: &[(i64, f64)], width: usize) -> Option<(String, f64, f64)> {
        course(&view(slots), "m", |figures| figures.p50, width).map(|course| (course.bars, course.least, course.most))
    }

    #[test]
    fn a_course_shows_its_last_slots_and_leaves_gaps() {
        let slots = [(100, 8.0), (110, 1.0), (130, 4.5), (140, 8.0)];
        assert_eq!(bars(&slots, 10), Some(("█▁ ▅█".into(), 1.0, 8.0)));
        assert_eq!(bars(&slots, 2), Some(("▅█".into(), 4.5, 8.0)));
        assert_eq!(bars(&slots, 3), Some((" ▅█".into(), 4.5, 8.0)));
    }

    #[test]
    fn a_course_without_samples_is_none_and_of_zeros_is_low() {
        assert_eq!(bars(&[], 9), None);
        assert!(course(&view(&[(0, 1.0)]), "other", |figures| figures.p50, 9).is_none());
        assert_eq!(bars(&[(0, 0.0)], 9), Some(("▁".into(), 0.0, 0.0)));
    }

    fn session(responses: serde_json::Value, more: u64) -> Session {
        from_value(json!({
            "session_id": "s", "model": null, "end_reason": "closed", "duration_ms": 20.0, "stream_ttft_ms": null,
            "stream_rtf": null, "responses": responses, "more_responses": more,
        }))
        .unwrap()
    }

    #[test]
    fn a_timeline_shows_when_responses_wait_speak_and_break_off() {
        let responses = json!([
            {"status": "completed", "created_ms": 2, "first_audio_ms": 4, "last_audio_ms": 7, "ended_ms": 8},
            {"status": "cancelled", "created_ms": 10, "first_audio_ms": 12, "last_audio_ms": 14, "ended_ms": 15},
            {"status": "failed", "created_ms": 16, "first_audio_ms": null, "last_audio_ms": null, "ended_ms": 18},
        ]);
        assert_eq!(timeline(&session(responses.clone(), 0), 20), "  ··████  ··███x··! ");
        assert_eq!(timeline(&session(responses, 3), 20), "  ··████  ··███x··!…");
    }

    #[test]
    fn unknown_times_are_blank() {
        let unknown = json!([
            {"status": "cancelled", "created_ms": null, "first_audio_ms": null, "last_audio_ms": null, "ended_ms": null},
        ]);
        assert_eq!(timeline(&session(unknown.clone(), 0), 4), "    ");
        assert_eq!(timeline(&session(unknown, 1), 0), "");
    }
}
