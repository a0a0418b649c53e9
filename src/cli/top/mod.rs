//! `top`: a running service's figures in a terminal, from its `/status`.

mod access;
mod fetch;
mod frame;
mod plot;
mod screen;
mod status;
mod text;

use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::Context;
use ureq::http::Uri;

use self::fetch::{Client, Error, Selection};
use self::frame::Frame;
use self::text::Line;
use super::output;
use crate::exit::{Code, Outcome};

/// The size of a frame that is not for a terminal.
const WIDTH: usize = 100;
const HEIGHT: usize = 40;

/// A running service's figures in the terminal.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where the service listens (its admin.listen)
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464", value_parser = fetch::url)]
    url: Uri,
    #[command(flatten)]
    access: access::Args,
    /// Run to show [default: the one whose last event is latest]
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Model to show [default: all together]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Window to show, such as 5m, or all for the whole run [default: the shortest]
    #[arg(long, value_name = "NAME")]
    window: Option<String>,
    /// How often to ask
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Print one frame as plain text; so it is also where the output is no terminal
    #[arg(long)]
    once: bool,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if every < Duration::from_millis(100) { Err("at least 100ms".into()) } else { Ok(every) }
}

/// Runs the command.
///
/// # Errors
/// When no service answers, it does not let one in, something else does, or the terminal can't be written to.
pub fn run(args: Args) -> Outcome {
    let Args { url, access, run, model, window, every, once } = args;
    let access = access.read().map_err(|error| Code::BadInput.because(error))?;
    let (client, selection) = (Client::new(url, access), Selection { run, model, window });
    let status = client.fetch(&selection).map_err(|error| match error {
        Error::NoAnswer { .. } => Code::BrokerUnavailable.because(error),
        Error::NoAccess { .. } | Error::NotOurs { .. } => Code::Failed.because(error),
    })?;
    if !once && io::stdout().is_terminal() {
        return Ok(screen::show(&client, selection, status, every).context("the terminal can't be used")?);
    }
    let frame = Frame { url: &client.url, selection: &selection, width: WIDTH, height: HEIGHT, foot: Line::default() };
    let text: String = frame.lines(&status).iter().map(|line| format!("{line}\n")).collect();
    Ok(output::print(text.trim_end())?)
}
