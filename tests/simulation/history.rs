//! The last things that happened, for whoever has to understand a violation.

use std::collections::VecDeque;
use std::fmt;

use crate::traffic::BEGIN;

const KEPT: usize = 60;

#[derive(Debug, Default)]
pub struct History {
    steps: u64,
    lines: VecDeque<String>,
}

impl History {
    /// A round of a worker, or of the world around it.
    pub fn step(&mut self) {
        self.steps += 1;
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn tell(&mut self, now: u64, process: usize, what: &str) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        let seconds = (now - BEGIN) as f64 / 1000.0;
        self.lines.push_back(format!("{seconds:9.3} s  step {:5}  process {process}: {what}", self.steps));
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
