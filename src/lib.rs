//! duplex-collector: TTFT, TTFP and RTF of full-duplex voice sessions, from Kafka, exactly once.

pub mod bundle;
pub mod clock;
pub mod collector;
pub mod distribution;
pub mod ids;
pub mod numeric;
pub mod report;
pub mod synth;
pub mod task;
pub mod time;
pub mod wire;
pub mod worker;

pub mod admin;
pub mod cli;
pub mod config;
pub mod kafka;
pub mod metrics;
