//! Where logs go and what they look like: standard error, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogSettings};
use crate::panics;

/// Starts logging; the first call of a process counts.
pub fn init(settings: &LogSettings) {
    // The configuration has checked the filter.
    let filter = EnvFilter::try_new(&settings.filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match settings.format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    // Another subscriber is there already: a test's own.
    drop(started);
    panics::install();
}
