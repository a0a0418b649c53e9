//! `dead-letters`: what could not be read, and the way back once that is mended.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use serde::Serialize;

use super::foreign::Foreign;
use super::{ConfigArgs, check, output, table};
use crate::clock::system_time;
use crate::config::Config;
use crate::exit::Outcome;
use crate::kafka::{self, DeadLetters, Entry, Place, Redriven, StoredDeadLetter};
use crate::time::Timestamp;
use crate::wire::DeadLetterReason;

/// How long the broker may be silent before there is none.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// Looks at the dead-letter topic, and sends records back to the events topic once they can be read.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Count them by reason, or list each of them
    List(ListArgs),
    /// Show one, without its payload
    Show(ShowArgs),
    /// Send them back to the events topic as they were, each once
    Redrive(RedriveArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// List each with this reason
    #[arg(long, value_parser = reasons())]
    reason: Option<String>,
    /// List each as a line of JSON, without payload
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Where it stands on the dead-letter topic, as `list` says
    #[arg(value_name = "PARTITION:OFFSET")]
    at: Place,
    /// With its payload; it may hold private text and audio
    #[arg(long)]
    with_payload: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["reason", "at", "all"]))]
struct RedriveArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Those with this reason
    #[arg(long, value_parser = reasons())]
    reason: Option<String>,
    /// That one; more than once for more
    #[arg(long, value_name = "PARTITION:OFFSET", conflicts_with = "reason")]
    at: Vec<Place>,
    /// All of them
    #[arg(long, conflicts_with_all = ["reason", "at"])]
    all: bool,
    /// Also those that were sent back before
    #[arg(long)]
    force: bool,
}

fn reasons() -> PossibleValuesParser {
    DeadLetterReason::ALL.map(DeadLetterReason::as_str).into()
}

/// Runs the command.
///
/// # Errors
/// When no broker answers, the topic can't be read, or nothing could be sent back.
pub fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::List(args) => list(args),
        Command::Show(args) => show(args),
        Command::Redrive(args) => redrive(args),
    }
}

fn connected(args: &ConfigArgs) -> Outcome<Config> {
    let config = args.load()?;
    kafka::connect(&config.kafka, BROKER_TIMEOUT).map_err(check::failure)?;
    Ok(config)
}

/// A dead letter as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    reason: &'a str,
    detail: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp_ms: Option<Timestamp>,
    key: Option<String>,
    payload_bytes: u64,
    payload_kept: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers_left_out: Option<u64>,
    /// Their values may be anything: text as far as it is any.
    headers: Vec<(&'a str, Option<String>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

impl<'a> Line<'a> {
    fn of(letter: &StoredDeadLetter<'a>, with_payload: bool) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            at: letter.at.to_string(),
            reason: letter.reason,
            detail: letter.detail,
            topic: letter.topic,
            partition: letter.partition.0,
            offset: letter.offset.0,
            timestamp_ms: letter.timestamp,
            key: letter.key.map(text),
            payload_bytes: letter.payload_bytes,
            payload_kept: letter.payload.is_some(),
            key_bytes: letter.key_bytes,
            headers_left_out: letter.headers_left_out,
            headers: letter.headers.iter().map(|(name, value)| (*name, value.map(text))).collect(),
            payload: letter.payload.filter(|_| with_payload).map(text),
        }
    }
}

/// What there is with one reason.
#[derive(Default)]
struct ByReason {
    letters: u64,
    redriven: u64,
    without_payload: u64,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
}

fn list(args: &ListArgs) -> Outcome {
    let config = connected(&args.config)?;
    let mut by_reason: BTreeMap<String, ByReason> = BTreeMap::new();
    let mut reason_of: BTreeMap<Place, String> = BTreeMap::new();
    let mut foreign = 0;
    let one_by_one = args.json || args.reason.is_some();
    let mut printed = Ok(());
    let mut rows = table::table(&["at", "came from", "timestamp", "bytes", "key", "detail"]);
    DeadLetters::of(&config.kafka, &config.topics)
        .visit(&mut |entry| match entry {
            Entry::Letter(letter) if args.reason.as_ref().is_some_and(|asked| asked != letter.reason) => {}
            Entry::Letter(letter) if args.json => {
                let line = serde_json::to_string(&Line::of(&letter, false)).expect("JSON can be written to memory");
                if printed.is_ok() {
                    printed = output::print(line);
                }
            }
            Entry::Letter(letter) if one_by_one => {
                rows.add_row(row(&letter));
            }
            Entry::Letter(letter) => {
                let of = by_reason.entry(letter.reason.to_owned()).or_default();
                of.letters += 1;
                of.without_payload += u64::from(letter.payload.is_none());
                of.first = [of.first, letter.timestamp].into_iter().flatten().min();
                of.last = of.last.max(letter.timestamp);
                reason_of.insert(letter.at, letter.reason.to_owned());
            }
            Entry::Redriven(at) => {
                if let Some(of) = reason_of.remove(&at).and_then(|reason| by_reason.get_mut(&reason)) {
                    of.redriven += 1;
                }
            }
            Entry::Foreign => foreign += 1,
        })
        .map_err(check::broker_failure)?;
    printed?;
    if one_by_one && !args.json {
        output::print(rows)?;
    } else if !args.json {
        let mut table = table::table(&["reason", "dead letters", "sent back", "without payload", "first", "last"]);
        for (reason, of) in &by_reason {
            let counts = [of.letters, of.redriven, of.without_payload].map(|count| count.to_string());
            let mut row = vec![printable(reason)];
            row.extend(counts);
            row.extend([of.first, of.last].map(time));
            table.add_row(row);
        }
        table::align(&mut table, 1..4);
        output::print(table)?;
    }
    if foreign > 0 {
        eprintln!("{foreign} records of {} are no dead letters of this service", config.topics.dead_letters);
    }
    Ok(())
}

fn row(letter: &StoredDeadLetter<'_>) -> [String; 6] {
    [
        letter.at.to_string(),
        format!("{} {}:{}", printable(letter.topic), letter.partition, letter.offset),
        time(letter.timestamp),
        match letter.payload {
            Some(_) => letter.payload_bytes.to_string(),
            None => format!("{} (not kept)", letter.payload_bytes),
        },
        letter.key.map(|key| printable(&String::from_utf8_lossy(key))).unwrap_or_default(),
        printable(letter.detail),
    ]
}

fn show(args: &ShowArgs) -> Outcome {
    let config = connected(&args.config)?;
    let mut shown = None;
    DeadLetters::of(&config.kafka, &config.topics)
        .visit(&mut |entry| {
            if let Entry::Letter(letter) = entry
                && letter.at == args.at
            {
                let line = Line::of(&letter, args.with_payload);
                shown = Some(serde_json::to_string_pretty(&line).expect("JSON can be written to memory"));
            }
        })
        .map_err(check::broker_failure)?;
    let topic = &config.topics.dead_letters;
    let shown = shown.ok_or_else(|| anyhow!("{} of {topic} is no dead letter; `list --json` names each", args.at))?;
    Ok(output::print(shown)?)
}

fn redrive(args: &RedriveArgs) -> Outcome {
    let config = connected(&args.config)?;
    let select = |letter: &StoredDeadLetter<'_>| match &args.reason {
        Some(reason) => reason == letter.reason,
        None => args.all || args.at.contains(&letter.at),
    };
    let Redriven { sent, earlier, without_payload, of_another_topic } =
        DeadLetters::of(&config.kafka, &config.topics).redrive(&select, args.force).map_err(check::broker_failure)?;
    let events = &config.topics.events;
    output::print(format_args!("{sent} sent back to {events}"))?;
    for (count, what) in [
        (earlier, "sent back before, and so not now: --force sends them again"),
        (without_payload, "without payload: nothing can be sent back"),
        (of_another_topic, "from another topic than topics.events"),
    ] {
        if count > 0 {
            output::print(format_args!("{count} {what}"))?;
        }
    }
    if sent > 0 {
        return Ok(());
    }
    Err(anyhow!("nothing was sent back; `dead-letters list` shows what there is").into())
}

fn printable(text: &str) -> String {
    Foreign(text.to_owned()).to_string()
}

fn time(at: Option<Timestamp>) -> String {
    let in_range = |at: &Timestamp| (0..253_402_300_800_000).contains(&at.0);
    at.filter(in_range).map(|at| humantime::format_rfc3339_millis(system_time(at)).to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_that_is_no_time_is_left_out() {
        assert_eq!(time(Some(Timestamp(1_700_000_000_123))), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(Some(Timestamp(i64::MAX))), "");
        assert_eq!(time(Some(Timestamp(-1))), "");
    }
}
