//! `check`: the configuration before anything depends on it.

use std::time::Duration;

use super::{ConfigArgs, output};
use crate::app;
use crate::config::Config;
use crate::exit::{Code, Failure, Outcome};
use crate::kafka::{self, CheckError};
use crate::worker::{BrokerError, ProcessingGuarantee};

/// How long the cluster may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks a configuration and says what it found: every problem at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask the broker too: whether it answers, whether the topics can work, and whether the principal may what it must
    #[arg(long)]
    connect: bool,
    /// Print the effective configuration too, secrets hidden
    #[arg(long)]
    show_config: bool,
}

/// Runs the command.
///
/// # Errors
/// When the configuration can't work, or with `--connect` when the cluster does not answer or its topics can't work.
pub fn run(args: &Args) -> Outcome {
    let config = args.config.load()?;
    app::check(&config)?;
    eprintln!("the configuration is fine");
    if config.kafka.shows_secrets() {
        eprintln!("warning: {}", app::SHOWS_SECRETS);
    }
    let found = if args.connect { ask(&config) } else { Ok(()) };
    if args.show_config {
        output::print(config.to_string().trim_end())?;
    }
    found
}

/// Asks the cluster, and says what it answers.
fn ask(config: &Config) -> Outcome {
    let cluster = kafka::connect(&config.kafka, CONNECT_TIMEOUT).map_err(failure)?;
    let brokers = if cluster.brokers == 1 { "broker" } else { "brokers" };
    eprintln!("{} answers: {} {brokers}", config.kafka.bootstrap_servers, cluster.brokers);
    let mut topics = config.topics.clone();
    // A check changes nothing.
    topics.create = false;
    let missing_is_fine = config.topics.create;
    match kafka::check_topics(&config.kafka, &topics, app::indivisible(config), false, CONNECT_TIMEOUT) {
        Err(CheckError::Wrong(problems))
            if missing_is_fine && problems.iter().all(|problem| missing(problem).is_some()) =>
        {
            for topic in problems.iter().filter_map(missing) {
                eprintln!("topic {topic} does not exist yet: run makes it");
            }
        }
        checked => {
            checked.map_err(failure)?;
            eprintln!("topics are fine");
            if config.kafka.uses_token() {
                let topic = &config.topics.changelog;
                eprintln!("not checked, for it can't be asked for with OAUTHBEARER: cleanup.policy=compact of {topic}");
            }
            let is_transactional = config.worker.processing_guarantee == ProcessingGuarantee::ExactlyOnce;
            kafka::check_permissions(&config.kafka, &config.topics, is_transactional, CONNECT_TIMEOUT)
                .map_err(failure)?;
            eprintln!("permissions are fine");
        }
    }
    Ok(())
}

fn missing(problem: &kafka::TopicProblem) -> Option<&str> {
    match problem {
        kafka::TopicProblem::Missing { topic } => Some(topic),
        _ => None,
    }
}

/// The failure of a reader or a writer.
pub(super) fn broker_failure(e: BrokerError) -> Failure {
    match e {
        BrokerError::Retriable(_) => Code::BrokerUnavailable.because(e),
        BrokerError::Denied(_) | BrokerError::Misconfigured(_) => Code::BadConfiguration.because(e),
        e => Code::Failed.because(e),
    }
}

/// The failure of a look at the cluster.
pub(super) fn failure(e: CheckError) -> Failure {
    match e {
        CheckError::Unavailable { .. } => Code::BrokerUnavailable.because(e),
        CheckError::Wrong(_) => Code::BadConfiguration.because(e),
    }
}
