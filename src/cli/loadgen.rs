//! `loadgen`: made-up traffic into a real topic.

use std::time::Duration;

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};

use super::{ConfigArgs, check, output};
use crate::clock::SystemClock;
use crate::exit::Outcome;
use crate::kafka::{Writer, connect};
use crate::synth::{Event, Profile, Share, Tap, Traffic};
use crate::time::{Clock, Timestamp};
use crate::worker::BrokerError;
use clap::ValueEnum;

/// How long the broker may take to answer, and to take the last records.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// What the made-up server is like.
#[derive(Clone, Copy, Default, Debug, ValueEnum)]
pub enum Server {
    /// Within every objective of the status page
    #[default]
    Healthy,
    /// Slow first text, audio slower than real time, sessions that break
    Degraded,
}

impl Server {
    pub(super) fn profile(self) -> Profile {
        match self {
            Self::Healthy => Profile::default(),
            Self::Degraded => Profile::degraded(),
        }
    }
}

/// Writes made-up duplex traffic to the events topic of a cluster.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Sessions to make in all
    #[arg(long, default_value_t = 100)]
    sessions: u64,
    /// Sessions at once
    #[arg(long, default_value_t = 10)]
    concurrency: usize,
    /// Duration of an audio packet in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    packet_ms: u32,
    /// Bytes of an audio packet before base64 [default: those of its duration, 48 a millisecond]
    #[arg(long, value_name = "BYTES")]
    payload_bytes: Option<u32>,
    /// Events a second; 0: as fast as it goes [default: real time]
    #[arg(long, value_name = "EVENTS")]
    rate: Option<u64>,
    /// The same seed makes the same sessions, ids included [default: another one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// How the made-up server does
    #[arg(long, value_enum, default_value_t)]
    profile: Server,
    /// run_id header of every record
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Server events only, as a topic has them whose producer does not tap the client's side
    #[arg(long)]
    server_events_only: bool,
}

/// Runs the command.
///
/// # Errors
/// When no broker answers, or one refuses a record.
pub fn run(args: &Args) -> Outcome {
    let config = args.config.load()?;
    crate::telemetry::init(&config.log);
    connect(&config.kafka, BROKER_TIMEOUT).map_err(check::failure)?;
    let mut writer = Writer::new(&config.kafka).map_err(check::broker_failure)?;
    let clock = SystemClock::new();
    // Sessions of an earlier call may still be open: the same ids again would end them.
    let seed = args.seed.unwrap_or_else(|| clock.now().0.unsigned_abs());
    let profile = args.profile(seed);
    let start = profile.start;
    let mut traffic = Traffic::new(profile);
    let progress = ProgressBar::no_length().with_style(
        ProgressStyle::with_template("{spinner} {human_pos} events  {per_sec}  {msg}").expect("a valid template"),
    );
    let started = clock.monotonic();
    let pace = Pace { rate: args.rate, start, clock, started };
    let mut events = 0;
    while let Some(event) = traffic.next() {
        pace.wait_for(events, &event);
        send(&mut writer, &config.topics.events, &event, clock.now()).map_err(check::broker_failure)?;
        events += 1;
        if events % 256 == 0 {
            progress.set_position(events);
            progress.set_message(format!("{} of {} sessions", traffic.counts().sessions, args.sessions));
        }
    }
    writer.flush(BROKER_TIMEOUT).map_err(check::broker_failure)?;
    progress.finish_and_clear();
    let (counts, took) = (traffic.counts(), clock.monotonic().saturating_sub(started));
    output::print(format_args!(
        "{} events of {} sessions (--seed {seed}), {}, in {:.1} s: {:.0} events/s to {}",
        HumanCount(counts.events),
        HumanCount(counts.sessions),
        HumanBytes(counts.bytes),
        took.as_secs_f64(),
        counts.events as f64 / took.as_secs_f64(),
        config.topics.events,
    ))?;
    if counts.abandoned > 0 {
        output::print(format_args!("{} of them end by session.idle_timeout only", counts.abandoned))?;
    }
    Ok(())
}

impl Args {
    fn profile(&self, seed: u64) -> Profile {
        let profile = self.profile.profile();
        Profile {
            seed,
            sessions: self.sessions,
            concurrency: self.concurrency,
            packet_ms: self.packet_ms..=self.packet_ms,
            payload_bytes: self.payload_bytes,
            run_id: self.run_id.clone(),
            tap: if self.server_events_only { Tap::ServerEvents } else { Tap::BothDirections },
            // At another pace than the traffic's own, timestamps are no clock to measure by.
            client_clock: if self.rate.is_some() { Share::ALL } else { profile.client_clock },
            ..profile
        }
    }
}

/// Writes one event as a record with the timestamp `at`.
pub fn send(writer: &mut Writer, topic: &str, event: &Event, at: Timestamp) -> Result<(), BrokerError> {
    let headers: Vec<(&str, Option<&[u8]>)> =
        event.headers.iter().map(|(name, value)| (name.as_str(), Some(value.as_bytes()))).collect();
    writer.send(topic, Some(event.session.as_str().as_bytes()), &event.value, Some(at), &headers)
}

/// When the next event may go.
struct Pace {
    rate: Option<u64>,
    start: Timestamp,
    clock: SystemClock,
    /// When the first event went, by that clock.
    started: Duration,
}

impl Pace {
    fn wait_for(&self, sent: u64, event: &Event) {
        let due = match self.rate {
            Some(0) => return,
            Some(rate) => Duration::from_secs_f64(sent as f64 / rate as f64),
            None => event.at.since(self.start),
        };
        let ahead = due.saturating_sub(self.clock.monotonic().saturating_sub(self.started));
        if ahead > Duration::from_millis(1) {
            std::thread::sleep(ahead);
        }
    }
}
