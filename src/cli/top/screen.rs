//! The full screen: keys, redrawing, and a thread that asks meanwhile.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Print, PrintStyledContent, Stylize};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};

use super::fetch::{Client, Error, Selection};
use super::frame::{Frame, utc};
use super::status::Status;
use super::text::{Line, Tone};
use crate::clock::SystemClock;
use crate::time::{Clock, Timestamp};

/// How soon a key is taken and an answer shown.
const TICK: Duration = Duration::from_millis(100);
const KEYS: &str = "q quit  r next run  w next window";

/// The terminal while it is the screen's; dropped, it is as before.
struct Terminal;

impl Terminal {
    fn take() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        let taken = Self;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(taken)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// What is shown.
struct Shown {
    status: Status,
    selection: Selection,
    /// When the status came, and why no other has come since.
    at: Timestamp,
    trouble: Option<Error>,
}

/// Shows `first` and what comes after it until the user has enough.
///
/// # Errors
/// When the terminal can't be written to.
pub fn show(client: &Client, selection: Selection, first: Status, every: Duration) -> io::Result<()> {
    let clock = SystemClock::new();
    let mut shown = Shown { status: first, selection, at: clock.now(), trouble: None };
    let (ask, answers) = asking(client.clone(), shown.selection.clone(), every);
    let _terminal = Terminal::take()?;
    loop {
        draw(client, &shown)?;
        if event::poll(TICK)? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
                    KeyCode::Char('r') => shown.next_run(),
                    KeyCode::Char('w') => shown.next_window(),
                    _ => continue,
                },
                _ => continue,
            }
            // The thread ends with this function only.
            let _ = ask.send(shown.selection.clone());
        }
        for (selection, answer) in answers.try_iter() {
            match answer {
                Ok(status) if selection == shown.selection => {
                    shown = Shown { status, selection, at: clock.now(), trouble: None };
                }
                // Of what was selected before a key.
                Ok(_) => {}
                Err(error) => shown.trouble = Some(error),
            }
        }
    }
}

impl Shown {
    fn next_run(&mut self) {
        let current = self.selection.run.as_ref().or(self.status.run.as_ref().map(|run| &run.run_id.0));
        let runs: Vec<&String> = self.status.runs.iter().map(|run| &run.0).collect();
        self.selection.run = after(&runs, current).cloned();
    }

    fn next_window(&mut self) {
        let all = "all".to_owned();
        let windows: Vec<&String> = [&all].into_iter().chain(self.status.windows.iter().map(|w| &w.0)).collect();
        let viewed = self.status.view.as_ref().map(|view| &view.window.0);
        self.selection.window = after(&windows, self.selection.window.as_ref().or(viewed)).cloned();
    }
}

/// The one after `current`, in a circle; the first where that is not among them.
fn after<'a>(all: &[&'a String], current: Option<&String>) -> Option<&'a String> {
    let at = all.iter().position(|one| Some(*one) == current).map_or(0, |at| at + 1);
    all.get(at).or(all.first()).copied()
}

type Answer = (Selection, Result<Status, Error>);

/// A thread that asks again and again, and at once for what is sent to it; it ends when nobody listens any more.
fn asking(client: Client, mut selection: Selection, every: Duration) -> (Sender<Selection>, Receiver<Answer>) {
    let (ask, asked) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    thread::spawn(move || {
        loop {
            match asked.recv_timeout(every) {
                Ok(selected) => selection = selected,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Of several keys in a row only the last counts.
            selection = asked.try_iter().last().unwrap_or(selection);
            let fetched = client.fetch(&selection);
            if answer.send((selection.clone(), fetched)).is_err() {
                return;
            }
        }
    });
    (ask, answers)
}

fn draw(client: &Client, shown: &Shown) -> io::Result<()> {
    let (width, height) = terminal::size()?;
    let foot = match &shown.trouble {
        None => Line::of(Tone::Dim, KEYS),
        Some(error) => Line::of(Tone::Bad, format!("figures stand still since {}: {}", utc(shown.at.0), error.why())),
    };
    let frame =
        Frame { url: &client.url, selection: &shown.selection, width: width.into(), height: height.into(), foot };
    let mut out = io::stdout().lock();
    queue!(out, terminal::BeginSynchronizedUpdate)?;
    for (row, line) in (0..height).zip(frame.lines(&shown.status)) {
        queue!(out, cursor::MoveTo(0, row))?;
        for (tone, text) in line.0 {
            match tone {
                Tone::Plain => queue!(out, Print(text))?,
                Tone::Bold => queue!(out, PrintStyledContent(text.bold()))?,
                Tone::Dim => queue!(out, PrintStyledContent(text.dim()))?,
                Tone::Good => queue!(out, PrintStyledContent(text.green()))?,
                Tone::Bad => queue!(out, PrintStyledContent(text.red()))?,
            }
        }
        queue!(out, Clear(ClearType::UntilNewLine))?;
    }
    queue!(out, Clear(ClearType::FromCursorDown), terminal::EndSynchronizedUpdate)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_next_window_is_the_one_after_that_which_is_shown() {
        let check = json!({"passes": true, "lines": []});
        let status = json!({
            "version": "0", "now_ms": 0, "live": check, "ready": check, "complete": true, "runs": [],
            "run": null, "windows": ["5m", "1h"], "last_sessions": [], "sessions_open": null, "lag": null,
            "partitions": {"running": 0, "restoring": 0}, "dead_letters": {},
            "verdict": {"state": "good", "headline": "Healthy", "checks": [], "notes": []},
            "view": {"model": "all", "window": "5m", "slot_ms": 1, "slots": []},
        });
        let status = serde_json::from_value(status).unwrap();
        let mut shown = Shown { status, selection: Selection::default(), at: Timestamp(0), trouble: None };
        for next in ["1h", "all", "5m", "1h"] {
            shown.next_window();
            assert_eq!(shown.selection.window.as_deref(), Some(next));
        }
    }

    #[test]
    fn a_key_goes_round_in_a_circle() {
        let [a, b] = ["a", "b"].map(str::to_owned);
        let all = [&a, &b];
        assert_eq!(after(&all, Some(&a)), Some(&b));
        assert_eq!(after(&all, Some(&b)), Some(&a));
        assert_eq!(after(&all, Some(&"gone".to_owned())), Some(&a));
        assert_eq!(after(&all, None), Some(&a));
        assert_eq!(after(&[], Some(&a)), None);
    }
}
