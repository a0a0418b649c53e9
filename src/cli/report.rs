//! `report`: `duplex_metrics.json` from bundles.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::output::Output;
use super::{ConfigArgs, check, input_name};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::exit::{Code, Outcome};
use crate::kafka::{self, BundleReader};
use crate::report::{Parts, Report};
use crate::time::Clock;
use crate::worker::BrokerError;

/// How long the broker may be silent.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// Builds duplex_metrics.json from bundles, and merges it into an existing one.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("input").required(true).args(["bundles", "topic"]))]
pub struct Args {
    /// File of bundles, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub bundles: Option<PathBuf>,
    /// Read the bundles topic of the configuration's cluster instead, up to its end
    #[arg(long)]
    pub topic: bool,
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Report to merge into: sessions whose split and sample_id come in again are replaced; a missing file is empty
    #[arg(long, value_name = "EXISTING")]
    pub merge: Option<PathBuf>,
    /// Where to write the report; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Builds a report over a file of bundles.
///
/// # Errors
/// When the file can't be read, or a line of it is no bundle.
pub fn of_file(path: &Path) -> Outcome<Report> {
    let unreadable = |e| Code::BadInput.because(anyhow!("{} can't be read: {e}", input_name(path)));
    let input: Box<dyn Read> = match path {
        path if path == Path::new("-") => Box::new(io::stdin()),
        path => Box::new(fs::File::open(path).map_err(unreadable)?),
    };
    let mut report = Report::default();
    for (line, number) in BufReader::new(input).lines().zip(1..) {
        let line = line.map_err(unreadable)?;
        if line.trim().is_empty() {
            continue;
        }
        let not_a_bundle = |e| Code::BadInput.because(anyhow!("{}: line {number} is no bundle: {e}", input_name(path)));
        report.add_bundle(&line).map_err(not_a_bundle)?;
    }
    Ok(report)
}

/// Builds a report over the bundles topic, up to its end.
///
/// # Errors
/// When no broker answers, or a record of the topic is no bundle.
pub fn of_topic(config: &Config) -> Outcome<Report> {
    kafka::connect(&config.kafka, BROKER_TIMEOUT).map_err(check::failure)?;
    let mut reader = BundleReader::new(&config.kafka, &config.topics).map_err(|e| Code::Failed.because(e))?;
    let mut report = Report::default();
    let (mut parts, mut foreign) = (Parts::default(), 0);
    let clock = SystemClock::new();
    let mut progress = clock.monotonic();
    while !reader.caught_up() {
        let polled = reader.poll(Duration::from_millis(200), &mut |record| {
            progress = clock.monotonic();
            if let Some((bundle, _)) = parts.take(record.key, record.value, record.written_at) {
                let added = str::from_utf8(&bundle).is_ok_and(|json| report.add_bundle(json).is_ok());
                foreign += u64::from(!added);
            }
        });
        match polled {
            Err(e @ BrokerError::Retriable(_)) if clock.monotonic().saturating_sub(progress) > BROKER_TIMEOUT => {
                return Err(Code::BrokerUnavailable.because(e));
            }
            Ok(()) | Err(BrokerError::Retriable(_)) => {}
            Err(e) => return Err(check::broker_failure(e)),
        }
    }
    if foreign > 0 {
        eprintln!("{foreign} records of {} are no bundles and were passed over", config.topics.bundles);
    }
    Ok(report)
}

/// Merges and writes a report.
///
/// # Errors
/// When the report to merge into is none, or the output can't be written; files stay as they were then.
pub fn write(report: Report, args: &Args) -> Outcome {
    let report = match &args.merge {
        Some(path) => report.merge_into(existing(path)?),
        None => report,
    };
    let mut output = Output::create(&args.output)?;
    output.bytes(&report.to_json())?;
    output.finish()?;
    eprintln!("{}: {} sessions, {} request rows", args.output.display(), report.sessions(), report.requests());
    Ok(())
}

fn existing(path: &Path) -> Outcome<Report> {
    let json = match fs::read_to_string(path) {
        Ok(json) => json,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Report::default()),
        Err(e) => return Err(Code::BadInput.because(anyhow!("{} can't be read: {e}", path.display()))),
    };
    let report = Report::parse(&json).with_context(|| format!("{} is no report to merge into", path.display()));
    report.map_err(|e| Code::BadInput.because(e))
}
