//! `demo`: an embedded broker, made-up traffic sped up, and the real pipeline between them.
//!
//! Records are stamped when they are sent, as in production; the client's receive times keep the traffic's own pace.

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};

use super::loadgen::{self, Server};
use super::{output, table};
use crate::app::{Service, Setup};
use crate::clock::SystemClock;
use crate::config::{Config, LogFormat, LogSettings};
use crate::exit::{Code, Failure, Outcome};
use crate::kafka::{EmbeddedBroker, Writer};
use crate::report::RunSummary;
use crate::shutdown::Shutdown;
use crate::synth::{Profile, Share, Traffic};
use crate::telemetry;
use crate::time::Clock;
use crate::worker::BrokerError;

/// How long the sped-up traffic takes on the wall clock, whatever its own time.
const TRAFFIC: Duration = Duration::from_secs(20);
/// How long nothing may happen before the demo gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const PARTITIONS: i32 = 8;
/// Bytes of an audio packet: the embedded broker keeps about 5 MB a partition and drops what is older.
const PAYLOAD_BYTES: u32 = 96;
/// The embedded broker keeps no more sessions than this without dropping records that were not read yet.
const MAX_SESSIONS: u64 = 2_000;

/// Shows the whole product without any set-up.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Sessions to make
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=MAX_SESSIONS))]
    sessions: u64,
    /// The same seed makes the same sessions
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the made-up server does
    #[arg(long, value_enum, default_value_t)]
    profile: Server,
    /// Go on with live traffic after the last session, until Ctrl-C
    #[arg(long)]
    keep_running: bool,
    /// Sessions at a time of that live traffic, 0 for none
    #[arg(long, value_name = "SESSIONS", default_value_t = 8, requires = "keep_running")]
    live: usize,
    /// Print the status page's address only, do not open it in a browser
    #[arg(long)]
    no_open: bool,
    /// Serve with the TLS and the login of this file, as admin.web_config has them
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When something is wrong with this machine, or the counts at the end are not those of the traffic.
pub fn run(args: &Args) -> Outcome {
    telemetry::init(&LogSettings { format: LogFormat::Text, filter: "warn".into() });
    let broker = EmbeddedBroker::start().map_err(failed)?;
    let mut config = configuration(&broker);
    config.admin.web_config.clone_from(&args.web_config);
    broker.create_topics(&config.topics).map_err(failed)?;
    let mut writer = Writer::new(&config.kafka).map_err(failed)?;
    let events_topic = config.topics.events.clone();
    let service = Service::start(Setup { config, is_demo: true })?;
    let page = format!("{}://{}/", service.scheme, service.address);
    output::print(format_args!(
        "duplex-collector demo: {} made-up sessions, an embedded broker, the real pipeline\n  status   {page}\n  \
         metrics  {page}metrics\n  report   {page}report\n",
        args.sessions
    ))?;
    if !args.no_open && io::stdout().is_terminal() && has_display() {
        // Its address was printed; without a browser that has to do.
        let _ = open::that_detached(page);
    }
    let runs = service.runs.clone();
    let shutdown = service.shutdown.clone();
    let pipeline = thread::Builder::new()
        .name("pipeline".into())
        .spawn(move || service.run())
        .context("the pipeline's thread can't be started")?;
    let summary = move || {
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.summaries(SystemClock::new().now()).into_iter().next()
    };
    let mut played = play(args, &mut writer, &events_topic, &shutdown, &summary);
    let goes_on = played.is_ok() && args.keep_running && !shutdown.is_requested();
    if goes_on && args.live > 0 {
        output::print("live traffic until Ctrl-C")?;
        let is_over = || shutdown.is_requested() || pipeline.is_finished();
        played = send(&mut Traffic::new(live(args)), 1.0, &mut writer, &events_topic, is_over, || {}).map(|_| ());
    } else if goes_on {
        output::print("serving until Ctrl-C")?;
    }
    drop(writer);
    if !goes_on || args.live > 0 {
        shutdown.request();
    }
    let ended = pipeline.join().map_err(|_| anyhow!("the pipeline's thread panicked"))?;
    // The broker must outlive the pipeline.
    drop(broker);
    ended.and(played)
}

fn has_display() -> bool {
    cfg!(any(target_os = "macos", windows))
        || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some())
}

fn configuration(broker: &EmbeddedBroker) -> Config {
    let mut config = Config::with_instance("demo");
    config.kafka.bootstrap_servers = broker.bootstrap_servers();
    config.kafka.group_id = "demo".into();
    config.topics.partitions = PARTITIONS;
    config.topics.replication_factor = 1;
    config.run.default_run_id = "demo".into();
    config
}

/// Plays the traffic and waits for its bundles, then prints the table.
fn play(
    args: &Args,
    writer: &mut Writer,
    topic: &str,
    shutdown: &Shutdown,
    summary: &dyn Fn() -> Option<RunSummary>,
) -> Outcome {
    let profile = profile(args);
    // Its length is known once it was played through; it is made up anew from the seed for the broker.
    let (start, end) = (profile.start, Traffic::new(profile.clone()).last().map_or(profile.start, |event| event.at));
    let speed = end.since(start).as_secs_f64() / TRAFFIC.as_secs_f64();
    let progress = ProgressBar::new(args.sessions).with_style(
        ProgressStyle::with_template("{wide_bar} {pos}/{len} sessions finished  {msg}").expect("a valid template"),
    );
    progress.set_message(format!("{speed:.0} x real time"));
    let finished = || summary().map_or(0, |run| run.sessions());
    let mut traffic = Traffic::new(profile);
    let clock = SystemClock::new();
    let is_over = || shutdown.is_requested();
    if !send(&mut traffic, speed, writer, topic, is_over, || progress.set_position(finished()))? {
        return interrupted(&progress);
    }
    writer.flush(PATIENCE).map_err(failed)?;
    let mut last = (finished(), clock.monotonic());
    while last.0 < args.sessions {
        thread::sleep(Duration::from_millis(50));
        let now = finished();
        progress.set_position(now);
        if shutdown.is_requested() {
            return interrupted(&progress);
        }
        if now > last.0 {
            last = (now, clock.monotonic());
        } else if clock.monotonic().saturating_sub(last.1) > PATIENCE {
            break;
        }
    }
    progress.finish_and_clear();
    let run = summary().ok_or_else(|| anyhow!("{} sessions were made and no bundle came", args.sessions))?;
    output::print(table::distributions(&run))?;
    let counts = traffic.counts();
    output::print(format_args!(
        "{} sessions made, {} bundles, {} request rows, {} events in {:.0} s",
        counts.sessions,
        run.sessions(),
        run.responses(),
        counts.events,
        clock.monotonic().as_secs_f64()
    ))?;
    if run.sessions() == counts.sessions {
        Ok(())
    } else {
        Err(anyhow!("{} sessions were made, {} bundles came", counts.sessions, run.sessions()).into())
    }
}

/// Sends traffic at `speed` times its own pace, telling `waits` now and then; whether it came to its end.
fn send(
    traffic: &mut Traffic,
    speed: f64,
    writer: &mut Writer,
    topic: &str,
    is_over: impl Fn() -> bool,
    waits: impl Fn(),
) -> Outcome<bool> {
    let clock = SystemClock::new();
    let mut first = None;
    for event in traffic {
        let start = *first.get_or_insert(event.at);
        let due = Duration::from_secs_f64(event.at.since(start).as_secs_f64() / speed);
        while let Some(ahead) = due.checked_sub(clock.monotonic()).filter(|ahead| *ahead > Duration::from_millis(5)) {
            thread::sleep(ahead.min(Duration::from_millis(50)));
            waits();
            if is_over() {
                return Ok(false);
            }
        }
        loadgen::send(writer, topic, &event, clock.now()).map_err(failed)?;
    }
    Ok(true)
}

fn interrupted(progress: &ProgressBar) -> Outcome {
    progress.finish_and_clear();
    Ok(output::print("interrupted")?)
}

fn profile(args: &Args) -> Profile {
    let concurrency = usize::try_from(args.sessions / 8).unwrap_or(usize::MAX).clamp(4, 40);
    Profile {
        seed: args.seed,
        sessions: args.sessions,
        concurrency,
        payload_bytes: Some(PAYLOAD_BYTES),
        // They end by the idle timeout only, which is longer than the demo.
        abandoned: Share::NONE,
        // The timestamps are sped up, and so no clock to measure by.
        client_clock: Share::ALL,
        ..args.profile.profile()
    }
}

/// What goes on once the counts are known: other sessions of the same kind, without an end.
fn live(args: &Args) -> Profile {
    let seed = args.seed.wrapping_add(1);
    Profile { seed, sessions: u64::MAX, concurrency: args.live, ..profile(args) }
}

fn failed(e: BrokerError) -> Failure {
    Code::Failed.because(e)
}
