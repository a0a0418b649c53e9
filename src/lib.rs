//! duplex-collector: TTFT, TTFP and RTF of full-duplex voice sessions, from Kafka, exactly once.
//!
//! The modules in the order they build on each other; each uses only what stands above it, which
//! `tests/architecture.rs` holds. Down to `task` everything is pure: no clock, no IO, no threads.

// Whoever reads standard output may have enough, and `println!` panics then: `cli::output::print` does not.
#![deny(clippy::print_stdout)]

pub mod fault;
pub mod ids;
pub mod numeric;
pub mod time;

pub mod wire;

pub mod distribution;

pub mod collector;

pub mod bundle;

pub mod report;

pub mod synth;

pub mod task;

pub mod worker;

pub mod clock;

mod limiter;
mod panics;

pub mod kafka;

pub mod metrics;

pub mod admin;

pub mod config;

mod exit;
mod shutdown;
mod telemetry;

mod app;

pub mod cli;
