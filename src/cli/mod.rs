//! The command line: what a newcomer types, and the exit codes that scripts read.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};

pub mod capture;
mod check;
mod dead_letters;
mod demo;
mod foreign;
mod format;
mod loadgen;
mod output;
mod replay;
mod report;
mod table;
mod top;

use crate::app::{Service, Setup};
use crate::config::{Config, Inputs, Problems};
use crate::exit::{Code, Outcome};
use crate::telemetry;

/// TTFT, TTFP and RTF of full-duplex voice sessions: raw events from Kafka in, one metric bundle per session out, exactly once
///
/// Start with `duplex-collector demo`: it needs nothing and shows everything.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes:
   0  done
   1  failed
   2  wrong usage
  65  an input file can't be read as what it should be
  69  no broker answers, or for top no service
  72  the changelog is missing, incomplete, of another offset or a newer release's
  74  records were deleted from the broker before they were read
  75  a restore waits for a transaction that nobody ends
  78  the configuration, or a topic it names, can't work
 143  a second signal ended run at once";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service: read the events topic until a signal ends it
    Run(ConfigArgs),
    /// See it work without any set-up: an embedded broker, made-up traffic, the real pipeline
    Demo(demo::Args),
    /// Compute the bundles of a capture file with the service's own code
    ///
    /// Of the configuration the sections session, limits and run count.
    Replay(replay::Args),
    /// Build duplex_metrics.json from bundles
    Report(report::Args),
    /// Check a configuration, and with --connect the cluster: every problem at once
    Check(check::Args),
    /// Look at the records that could not be read, and send them back once they can be
    DeadLetters(dead_letters::Args),
    /// Write made-up duplex traffic to the events topic
    ///
    /// Every record is stamped when it is sent. With --rate the client's receive times, of which the figures are made, keep
    /// the traffic's own pace.
    Loadgen(loadgen::Args),
    /// Watch a running service in the terminal
    Top(top::Args),
}

/// Where a command's configuration comes from: file < environment (DUPLEX_SECTION__KEY) < flags.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Configuration file (TOML); every key has a default
    #[arg(long, value_name = "FILE", env = crate::config::CONFIG_VARIABLE, value_parser = any_path())]
    config: Option<PathBuf>,
    /// Set one key, over file and environment, e.g. --set worker.count=2
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, e.g. worker.count=2")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// A path that may be empty, as a variable is that was set to nothing.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// What messages call an input.
fn input_name(path: &Path) -> Cow<'_, str> {
    if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() }
}

impl ConfigArgs {
    fn load(&self) -> Outcome<Config> {
        let bad = |problems: Problems| Code::BadConfiguration.because(problems);
        let file = self.config.as_deref().filter(|path| !path.as_os_str().is_empty());
        let inputs = Inputs::of_process(file, self.set.clone()).map_err(bad)?;
        Config::load(&inputs).map_err(bad)
    }
}

/// Runs the command that the process was started with.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {:#}", failure.error);
            failure.code.into()
        }
    }
}

fn run(command: Command) -> Outcome {
    match command {
        Command::Run(args) => {
            let config = args.load()?;
            telemetry::init(&config.log);
            Service::start(Setup { config, is_demo: false })?.run()
        }
        Command::Demo(args) => demo::run(&args),
        Command::Replay(args) => {
            let config = args.config.load()?;
            replay::run(&args, config.session, config.run)
        }
        Command::Report(args) => {
            let report = match &args.bundles {
                Some(path) => report::of_file(path)?,
                None => report::of_topic(&args.config.load()?)?,
            };
            report::write(report, &args)
        }
        Command::Check(args) => check::run(&args),
        Command::DeadLetters(args) => dead_letters::run(&args),
        Command::Loadgen(args) => loadgen::run(&args),
        Command::Top(args) => top::run(args),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;
    use std::{fs, iter};

    use clap::CommandFactory;

    use super::*;
    use crate::config::ConfigFile;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    /// The README's examples in a language: of the shell each command on one line, without comments.
    fn readme(language: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let readme = fs::read_to_string(path).expect("the README is there");
        let fence = format!("```{language}\n");
        let blocks = readme.split(&fence).skip(1);
        blocks.map(|block| block.split("```").next().unwrap_or_default().replace("\\\n", " ")).collect()
    }

    /// The `DUPLEX_...=value` named anywhere in the README, as the environment would have them.
    fn readme_variables() -> Vec<(OsString, OsString)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let readme = fs::read_to_string(path).expect("the README is there");
        let words = readme.split(|c: char| c.is_whitespace() || "`,;()".contains(c));
        let named = words.filter(|word| word.starts_with("DUPLEX_")).filter_map(|word| word.split_once('='));
        let of_keys = named.filter(|(name, _)| *name != crate::config::CONFIG_VARIABLE);
        of_keys.map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Those of a process without any configuration.
    fn inputs() -> Inputs {
        Inputs {
            file: None,
            environment: Vec::new(),
            flags: Vec::new(),
            host_name: Some("host".into()),
            read_secret: |_| Ok("secret".into()),
        }
    }

    #[test]
    fn every_command_of_the_readme_parses_and_sets_keys_that_there_are() {
        let mut seen = BTreeSet::new();
        for line in readme("sh").iter().flat_map(|block| block.lines()) {
            let words: Vec<_> = line.split(" #").next().unwrap_or_default().split_whitespace().collect();
            // Variables may stand before the program.
            let at = words.iter().position(|word| !word.contains('='));
            let at = match at.map(|at| (at, words[at])) {
                Some((at, "duplex-collector")) => at,
                Some((_, "cargo")) if words[1] == "run" => {
                    words.iter().position(|word| *word == "--").expect("a command")
                }
                _ => continue,
            };
            let words_of_it = iter::once("duplex-collector").chain(words[at + 1..].iter().copied());
            let parsed = Cli::command().try_get_matches_from(words_of_it).unwrap_or_else(|e| panic!("{line}: {e}"));
            seen.extend(parsed.subcommand_name().map(str::to_owned));
            let variables = words[..at].iter().filter_map(|word| word.split_once('='));
            let flags = words.windows(2).filter(|pair| pair[0] == "--set").map(|pair| pair[1]);
            let inputs = Inputs {
                environment: variables.map(|(name, value)| (name.into(), value.into())).collect(),
                flags: flags.map(|flag| key_and_value(flag).expect("a key and a value")).collect(),
                ..inputs()
            };
            Config::load(&inputs).unwrap_or_else(|problems| panic!("{line}: {problems}"));
        }
        let all: Vec<_> = Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect();
        assert!(all.iter().all(|name| seen.contains(name.as_str())), "{all:?} {seen:?}");
    }

    #[test]
    fn every_configuration_of_the_readme_is_one() {
        let blocks = readme("toml");
        assert!(blocks.len() > 2);
        for text in blocks {
            let file = Some(ConfigFile { name: "README.md".into(), text: text.clone() });
            let inputs = Inputs { file, ..inputs() };
            Config::load(&inputs).unwrap_or_else(|problems| panic!("{text}: {problems}"));
        }
    }

    #[test]
    fn every_variable_of_the_readme_sets_a_key_that_there_is() {
        let variables = readme_variables();
        assert!(variables.len() > 2, "{variables:?}");
        for variable in variables {
            let inputs = Inputs { environment: vec![variable.clone()], ..inputs() };
            Config::load(&inputs).unwrap_or_else(|problems| panic!("{variable:?}: {problems}"));
        }
    }

    #[test]
    fn a_key_to_set_has_a_value() {
        assert_eq!(key_and_value("worker.count=2"), Ok(("worker.count".into(), "2".into())));
        assert!(key_and_value("worker.count").is_err());
    }
}
