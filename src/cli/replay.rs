//! `replay`: the service's own tasks over a capture file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::capture::{Capture, CaptureError};
use super::output::{self, Output};
use super::{ConfigArgs, input_name, table};
use crate::clock::SystemClock;
use crate::collector::Settings;
use crate::exit::{Code, Outcome};
use crate::ids::{Partition, TopicPartition};
use crate::report::{Report, RunView, ViewSettings};
use crate::task::{CommitBatch, Counts, DeadLetter, PartitionTask};
use crate::time::{Clock, Timestamp};

/// The topic of a capture that names none.
const UNKNOWN_TOPIC: &str = "capture";

/// Records between two writes of what was gathered.
const RECORDS_A_BATCH: u64 = 10_000;

/// Computes the bundles of a capture file with the service's own code.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Capture file: one record a line as `kcat -C -J` prints them, or one bare event a line; `-` is standard input
    pub capture: PathBuf,
    /// Write the bundles here, one a line
    #[arg(long, value_name = "FILE")]
    pub bundles: Option<PathBuf>,
    /// Write the records that can't be read here, one JSON object a line, without their payload
    #[arg(long, value_name = "FILE")]
    pub dead_letters: Option<PathBuf>,
    /// Write duplex_metrics.json here
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Keep the payload in the dead letters; it may hold private text and audio
    #[arg(long, requires = "dead_letters")]
    pub with_payload: bool,
    /// Session id of bare events that carry none
    #[arg(long, value_name = "ID")]
    pub session_id: Option<String>,
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// A dead letter as a line of JSON.
#[derive(Serialize)]
struct DeadLetterLine<'a> {
    topic: &'a str,
    partition: Partition,
    offset: i64,
    key: Option<String>,
    reason: &'static str,
    detail: &'a str,
    payload_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
}

/// Runs the command. `settings` and `view` are the configuration's.
///
/// # Errors
/// When the capture can't be read or an output can't be written; no output appears then.
pub fn run(args: &Args, settings: Settings, view: ViewSettings) -> Outcome {
    let mut outputs = Outputs::create(args)?;
    let (lines, progress) = open(&args.capture)?;
    let mut replay = Replay { settings: Arc::new(settings), tasks: BTreeMap::new() };
    let mut capture = Capture::new(lines, args.session_id.clone());
    let mut view = RunView::new(view);
    let mut counts = Counts::default();
    let bad_input = |e: CaptureError| {
        Code::BadInput.because(anyhow!(e).context(format!("{} can't be replayed", input_name(&args.capture))))
    };
    let mut records = 0;
    while let Some(record) = capture.next_record().map_err(bad_input)? {
        let topic = record.topic.as_deref().unwrap_or(UNKNOWN_TOPIC);
        replay.task(topic, record.partition).process(&record.as_record(), SystemClock::default().now());
        records += 1;
        if records % RECORDS_A_BATCH == 0 {
            progress.set_position(capture.bytes());
            replay.drain(|topic, batch| outputs.write(topic, batch, &mut view, &mut counts))?;
        }
    }
    replay.tasks.values_mut().for_each(PartitionTask::end_of_input);
    replay.drain(|topic, batch| outputs.write(topic, batch, &mut view, &mut counts))?;
    outputs.finish()?;
    progress.finish_and_clear();
    let mut summary = table::counts(&counts).to_string();
    let now = SystemClock::default().now();
    for run in view.summaries(now) {
        summary.push('\n');
        summary.push_str(&table::distributions(&run).to_string());
    }
    if let Some(more @ 1..) = view.runs_not_shown(now) {
        summary.push_str(&format!("\n{more} more runs are not shown: run.max_runs, or too many figures for one view"));
    }
    if args.writes_to_stdout() {
        eprintln!("{summary}");
    } else {
        output::print(summary)?;
    }
    Ok(())
}

impl Args {
    fn writes_to_stdout(&self) -> bool {
        [&self.bundles, &self.dead_letters, &self.report].into_iter().flatten().any(|path| path == Path::new("-"))
    }
}

/// The tasks of a capture's partitions.
struct Replay {
    settings: Arc<Settings>,
    tasks: BTreeMap<(Arc<str>, Partition), PartitionTask>,
}

impl Replay {
    fn task(&mut self, topic: &str, partition: Partition) -> &mut PartitionTask {
        let source = TopicPartition { topic: topic.into(), partition };
        let settings = &self.settings;
        self.tasks
            .entry((Arc::clone(&source.topic), partition))
            .or_insert_with(|| PartitionTask::new(source, crate::ids::Offset(0), Arc::clone(settings)))
    }

    fn drain(&mut self, mut write: impl FnMut(&str, &CommitBatch) -> anyhow::Result<()>) -> anyhow::Result<()> {
        for ((topic, _), task) in &mut self.tasks {
            if let Some(batch) = task.prepare_commit() {
                write(topic, &batch)?;
            }
        }
        Ok(())
    }
}

/// The files that were asked for.
struct Outputs {
    bundles: Option<Output>,
    dead_letters: Option<Output>,
    report: Option<(Output, Report)>,
    with_payload: bool,
    /// One time for all bundles: which runs are shown then rests on their names, and not on how fast they come.
    written_at: Timestamp,
}

impl Outputs {
    fn create(args: &Args) -> anyhow::Result<Self> {
        let create = |path: &Option<PathBuf>| path.as_deref().map(Output::create).transpose();
        Ok(Self {
            bundles: create(&args.bundles)?,
            dead_letters: create(&args.dead_letters)?,
            report: create(&args.report)?.map(|output| (output, Report::default())),
            with_payload: args.with_payload,
            written_at: SystemClock::default().now(),
        })
    }

    fn write(
        &mut self,
        topic: &str,
        batch: &CommitBatch,
        view: &mut RunView,
        counts: &mut Counts,
    ) -> anyhow::Result<()> {
        counts.merge(&batch.counts);
        for bundle in &batch.bundles {
            view.observe(&bundle.json, self.written_at, self.written_at);
            if let Some(output) = &mut self.bundles {
                output.line(&bundle.json)?;
            }
            if let Some((_, report)) = &mut self.report {
                let json = str::from_utf8(&bundle.json).expect("a bundle is UTF-8");
                report.add_bundle(json).context("a bundle of this very run can't be reported")?;
            }
        }
        if let Some(output) = &mut self.dead_letters {
            for letter in &batch.dead_letters {
                output.line(&dead_letter_line(topic, letter, self.with_payload))?;
            }
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        if let Some((mut output, report)) = self.report {
            output.bytes(&report.to_json())?;
            output.finish()?;
        }
        self.dead_letters.map(Output::finish).transpose()?;
        self.bundles.map(Output::finish).transpose()?;
        Ok(())
    }
}

fn dead_letter_line(topic: &str, letter: &DeadLetter, with_payload: bool) -> Vec<u8> {
    let line = DeadLetterLine {
        topic,
        partition: letter.partition,
        offset: letter.offset.0,
        key: letter.key.as_ref().map(|key| String::from_utf8_lossy(key).into_owned()),
        reason: letter.reason.as_str(),
        detail: &letter.detail,
        payload_bytes: letter.payload.len(),
        payload: with_payload.then(|| String::from_utf8_lossy(&letter.payload).into_owned()),
    };
    serde_json::to_vec(&line).expect("a dead letter can be written to memory")
}

fn open(path: &Path) -> Outcome<(Box<dyn BufRead>, ProgressBar)> {
    let (input, bytes): (Box<dyn Read>, Option<u64>) = if path == Path::new("-") {
        (Box::new(io::stdin()), None)
    } else {
        let unreadable = |e| Code::BadInput.because(anyhow!("{} can't be read: {e}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        (Box::new(file), Some(bytes))
    };
    let progress = match bytes {
        _ if !io::stderr().is_terminal() => ProgressBar::hidden(),
        Some(bytes) => {
            let style = "{wide_bar} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";
            ProgressBar::new(bytes).with_style(ProgressStyle::with_template(style).expect("a valid template"))
        }
        None => ProgressBar::new_spinner()
            .with_style(ProgressStyle::with_template("{spinner} {bytes}  {bytes_per_sec}").expect("a valid template")),
    };
    Ok((Box::new(BufReader::with_capacity(1 << 20, input)), progress))
}
