//! The composition root: every part of the running service, put together and taken down again.

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::admin::{self, WebConfig};
use crate::clock::SystemClock;
use crate::config::Config;
use crate::exit::{Code, Failure, Outcome};
use crate::kafka::{self, Changelog, CheckError, Indivisible, RecordLimits};
use crate::metrics::{Health, Metrics, WorkerObserver};
use crate::report::RunView;
use crate::shutdown::Shutdown;
use crate::task;
use crate::time::Clock;
use crate::worker::{BrokerError, Observer, Worker, WorkerError};

/// How long one look at the cluster may take at start.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two looks.
const CHECK_PAUSE: Duration = Duration::from_millis(500);
/// Messages that repeat while the broker is out of reach are said once in this time.
const REPEAT_WARNING: Duration = Duration::from_secs(5);

mod run_view;

/// How the service is started.
#[derive(Clone, Debug)]
pub struct Setup {
    pub config: Config,
    /// The broker is the embedded one, and another port may be taken where the configured one is in use: the demo.
    pub is_demo: bool,
}

/// The running service.
pub struct Service {
    config: Config,
    is_demo: bool,
    clock: SystemClock,
    pub address: SocketAddr,
    /// What is spoken there: `http` or `https`.
    pub scheme: &'static str,
    pub runs: Arc<Mutex<RunView>>,
    health: Health,
    pub shutdown: Shutdown,
    observers: Vec<WorkerObserver>,
    runtime: Runtime,
    end_http: oneshot::Sender<()>,
}

/// The threads of a service whose topics are fine.
struct Threads {
    ended: Receiver<(usize, Result<(), WorkerError>)>,
    workers: usize,
    run_view: JoinHandle<()>,
}

impl Service {
    /// Starts the HTTP server and listens for signals. No record is read yet.
    ///
    /// # Errors
    /// When a property is not librdkafka's, the web config is wrong, or the address can't be listened on.
    pub fn start(setup: Setup) -> Outcome<Self> {
        let Setup { config, is_demo } = setup;
        let web_config = check(&config)?;
        let (tls, login) = web_config.as_ref().map_or((false, false), |web| (web.has_tls(), web.has_login()));
        if config.kafka.shows_secrets() {
            warn!("{SHOWS_SECRETS}");
        }
        let clock = SystemClock::new();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("http")
            .enable_all()
            .build()
            .context("the HTTP runtime can't be started")?;
        let listen = config.admin.listen;
        let bound = runtime
            .block_on(async { if is_demo { admin::bind_or_next(listen).await } else { admin::bind(listen).await } });
        let listener = bound.map_err(|e| Code::Failed.because(e))?;
        let address = listener.local_addr().context("the listener has no address")?;
        let metrics = Metrics::new(clock.now());
        let health = Health::new();
        health.await_run_view();
        let runs = Arc::new(Mutex::new(RunView::unread(config.run.clone())));
        let observers =
            (0..config.worker.count).map(|_| WorkerObserver::new(&metrics, &health, clock.monotonic())).collect();
        let state = admin::State { metrics, health: health.clone(), runs: Arc::clone(&runs), clock: Arc::new(clock) };
        let (end_http, http_ended) = oneshot::channel::<()>();
        runtime.spawn(admin::serve(listener, state, web_config, async {
            // Dropping the sender ends it as well.
            let _ = http_ended.await;
        }));
        let shutdown = Shutdown::default();
        let (signals, draining) = (shutdown.clone(), health.clone());
        runtime.spawn(async move {
            if let Err(error) = signals.on_signals(|| draining.drain()).await {
                error!(%error, "signals can't be listened for");
            }
        });
        let version = env!("CARGO_PKG_VERSION");
        info!(%address, tls, login, version, "serving /, /metrics, /livez, /readyz, /report, /status and /version");
        if login && !tls && !address.ip().is_loopback() {
            warn!(%address, "passwords cross the network in the clear; give admin.web_config a tls_server_config");
        }
        let scheme = if tls { "https" } else { "http" };
        Ok(Self { config, is_demo, clock, address, scheme, runs, health, shutdown, observers, runtime, end_http })
    }

    /// Runs until a signal or a failure; drains, and returns.
    ///
    /// # Errors
    /// When the topics can't work, a worker can't go on, or the drain takes too long.
    pub fn run(mut self) -> Outcome {
        let outcome = match self.await_topics() {
            Ok(Some(limits)) => self.spawn(limits).and_then(|threads| self.supervise(threads)),
            Ok(None) => Ok(()),
            Err(failure) => Err(failure),
        };
        drop(self.end_http);
        self.runtime.shutdown_timeout(Duration::from_secs(3));
        outcome
    }

    /// Waits for a broker and checks the topics; `None` when the shutdown came first.
    fn await_topics(&mut self) -> Outcome<Option<RecordLimits>> {
        let mut warned = Seldom::default();
        while !self.shutdown.is_requested() {
            // Not a worker's loop yet, but alive.
            let now = self.clock.monotonic();
            self.observers.iter_mut().for_each(|observer| observer.polled(now));
            let Config { kafka, topics, .. } = &self.config;
            let checked = kafka::check_topics(kafka, topics, indivisible(&self.config), self.is_demo, CHECK_TIMEOUT);
            match checked {
                Ok(limits) => {
                    self.health.hindered_by(None);
                    return Ok(Some(limits));
                }
                Err(e @ CheckError::Wrong(_)) => return Err(Code::BadConfiguration.because(e)),
                Err(e @ CheckError::Unavailable { .. }) => {
                    self.health.hindered_by(Some(e.to_string()));
                    if !self.shutdown.is_requested() && warned.is_due(now) {
                        warn!(cause = %e, "waiting for kafka");
                    }
                    thread::sleep(CHECK_PAUSE);
                }
            }
        }
        Ok(None)
    }

    fn spawn(&mut self, limits: RecordLimits) -> Outcome<Threads> {
        let (sender, ended) = mpsc::channel();
        let observers = std::mem::take(&mut self.observers);
        let workers = observers.len();
        for (slot, observer) in observers.into_iter().enumerate() {
            self.spawn_worker(slot, limits, observer, sender.clone())?;
        }
        let run_view = run_view::spawn(self)?;
        Ok(Threads { ended, workers, run_view })
    }

    fn spawn_worker(
        &self,
        slot: usize,
        limits: RecordLimits,
        observer: WorkerObserver,
        ended: Sender<(usize, Result<(), WorkerError>)>,
    ) -> Outcome {
        let Config { kafka, topics, dead_letter_payload, worker, session, .. } = self.config.clone();
        let (clock, shutdown) = (self.clock, self.shutdown.clone());
        let work = move || -> Result<(), WorkerError> {
            let guarantee = worker.processing_guarantee;
            let consumer = kafka::Consumer::new(&kafka, &topics, slot)?;
            let producer = kafka::Producer::new(&kafka, &topics, slot, guarantee, dead_letter_payload, limits)?;
            observer.watch_queues(consumer.fetched(), producer.queued());
            let ports = (consumer, producer, Changelog::new(&kafka, &topics), observer, clock);
            Worker::new(ports, topics.events.into(), worker, Arc::new(session)).run(shutdown.flag())
        };
        let thread = thread::Builder::new().name(format!("worker-{slot}")).spawn(move || {
            // The receiver is gone once the process ends all the same.
            let result = panic::catch_unwind(AssertUnwindSafe(work));
            let panicked = |_| Err(BrokerError::Fatal("the worker's thread panicked".into()).into());
            drop(ended.send((slot, result.unwrap_or_else(panicked))));
        });
        thread.map(drop).context("a worker thread can't be started").map_err(Failure::from)
    }

    /// Waits until every worker has ended. One that fails takes the others with it: the process is to be started anew.
    fn supervise(&self, threads: Threads) -> Outcome {
        let Threads { ended, mut workers, run_view } = threads;
        let mut outcome = Ok(());
        let mut deadline: Option<Duration> = None;
        while workers > 0 {
            let now = self.clock.monotonic();
            if self.shutdown.is_requested() {
                deadline.get_or_insert(now + self.config.worker.drain_timeout);
            }
            match ended.recv_timeout(Duration::from_millis(100)) {
                Ok((_, Ok(()))) => workers -= 1,
                Ok((slot, Err(e))) => {
                    workers -= 1;
                    let failure = failure(e, &self.config.kafka);
                    error!(worker = slot, cause = %failure.error, "worker ended");
                    outcome = outcome.and(Err(failure));
                    self.health.drain();
                    self.shutdown.request();
                }
                Err(RecvTimeoutError::Timeout) if deadline.is_some_and(|at| now >= at) => {
                    let timeout = self.config.worker.drain_timeout;
                    let late =
                        anyhow!("{workers} workers were not drained after {timeout:?}; nothing uncommitted is visible");
                    return outcome.and(Err(late.into()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Every worker has said how it ended.
                Err(RecvTimeoutError::Disconnected) => workers = 0,
            }
        }
        // It has nothing to lose, so it is not waited for longer than the workers are.
        let deadline = deadline.unwrap_or_default();
        while !run_view.is_finished() && self.clock.monotonic() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        if run_view.is_finished() && run_view.join().is_err() {
            warn!("the run view's thread panicked");
        }
        outcome
    }
}

/// Said where what the service logs in with can be read on the wire.
pub const SHOWS_SECRETS: &str =
    "sasl_plaintext sends the password or the token in clear: set security.protocol to \"sasl_ssl\"";

/// What its topics have to take in one record.
#[must_use]
pub fn indivisible(config: &Config) -> Indivisible {
    let limits = &config.session.limits;
    Indivisible { bundles: task::largest_piece(limits), changelog: task::largest_entry(limits) }
}

/// Checks what can be known without a broker and is not the configuration's own: librdkafka's properties and the web
/// config, which is read on the way.
///
/// # Errors
/// With everything that can't be used.
pub fn check(config: &Config) -> Outcome<Option<WebConfig>> {
    let properties = config.kafka.check().err().unwrap_or_default();
    let mut lines: Vec<String> = properties.iter().map(ToString::to_string).collect();
    let web_config = config.admin.web_config.as_deref().map(WebConfig::load).transpose().map_err(|error| {
        lines.push(error.to_string());
    });
    match web_config {
        Ok(web_config) if lines.is_empty() => Ok(web_config),
        _ => Err(Code::BadConfiguration.because(anyhow!(lines.join("\n")))),
    }
}

/// Says when a message that repeats may be said again.
#[derive(Default)]
struct Seldom {
    said_at: Option<Duration>,
}

impl Seldom {
    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.said_at.is_none_or(|at| now.saturating_sub(at) >= REPEAT_WARNING);
        if due {
            self.said_at = Some(now);
        }
        due
    }
}

fn failure(e: WorkerError, kafka: &kafka::Settings) -> Failure {
    let code = match &e {
        WorkerError::Broker(BrokerError::RecordsLost(_)) => Code::RecordsLost,
        WorkerError::Broker(BrokerError::Misconfigured(_)) => Code::BadConfiguration,
        WorkerError::Restore { .. } | WorkerError::State { .. } => Code::StateUnusable,
        WorkerError::RestoreStalled(..) => Code::RestoreStalled,
        WorkerError::Broker(BrokerError::Fenced(_)) => {
            let kafka::Settings { group_id, instance, .. } = kafka;
            return Code::Failed.because(anyhow!(
                "{e}: a process that was started later has the same kafka.instance, \"{instance}\", in group \"{group_id}\", or \
                 this one stood still for longer than transaction.timeout.ms; unless the later one was to take the place of \
                 this one, give each process an instance of its own"
            ));
        }
        WorkerError::Broker(_) => Code::Failed,
    };
    code.because(e)
}
