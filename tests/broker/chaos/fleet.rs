//! The processes of a deployment, and their supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use crate::service::{Deployment, Service};
use crate::wait::{PATIENCE, until};

/// Settings of each process, as environment variables.
pub type Settings = &'static [(&'static str, &'static str)];

/// Processes by instance. One that gives up is started again, as a supervisor would.
pub struct Fleet<'d> {
    deployment: &'d Deployment,
    settings: Settings,
    members: BTreeMap<String, Service>,
    /// Those that SIGSTOP has stopped: they answer nothing.
    stopped: BTreeSet<String>,
    /// Processes that gave up and were started again.
    pub restarts: usize,
}

impl<'d> Fleet<'d> {
    pub fn new(deployment: &'d Deployment, settings: Settings) -> Self {
        Self { deployment, settings, members: BTreeMap::new(), stopped: BTreeSet::new(), restarts: 0 }
    }

    /// The instances, in order.
    pub fn instances(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
    }

    pub fn start(&mut self, instance: &str) {
        let service = self.deployment.start(instance, self.settings);
        let earlier = self.members.insert(instance.to_owned(), service);
        assert!(earlier.is_none(), "{instance} runs already");
    }

    /// SIGKILL.
    pub fn kill(&mut self, instance: &str) {
        self.stopped.remove(instance);
        self.member(instance).kill();
    }

    /// SIGSTOP, and waits until it stands still. One that has just given up is started again first.
    pub fn stop(&mut self, instance: &str) {
        until(&format!("{instance} stands still"), || {
            let before = self.restarts;
            self.tend();
            if self.restarts > before {
                self.wait_until_all_run();
            }
            let service = &self.members[instance];
            service.signal("STOP");
            service.is_stopped().then_some(())
        });
        self.stopped.insert(instance.to_owned());
    }

    /// SIGCONT.
    pub fn go_on(&mut self, instance: &str) {
        self.members[instance].signal("CONT");
        self.stopped.remove(instance);
    }

    /// SIGTERM, and waits for the end of the drain.
    pub fn leave(&mut self, instance: &str) {
        self.member(instance).terminate_well();
    }

    /// Starts again what has given up.
    ///
    /// # Panics
    /// When one ended with another code than that for a worker that could not go on.
    pub fn tend(&mut self) {
        for (instance, service) in &mut self.members {
            let Some(status) = service.ended() else { continue };
            let log = service.log();
            let last: Vec<_> = log.lines().rev().take(5).collect();
            assert_eq!(status.code(), Some(1), "{instance} ended with {status}: {last:#?}");
            *service = self.deployment.start(instance, self.settings);
            self.restarts += 1;
        }
    }

    /// Partitions that a process runs.
    pub fn running(&self, instance: &str) -> usize {
        running(&self.members[instance])
    }

    /// Waits until the processes that are not stopped run every partition, and each of them some: one that has just
    /// started has no part in anything yet.
    ///
    /// # Panics
    /// When that takes too long, with what each says of itself.
    pub fn wait_until_all_run(&mut self) {
        let partitions = usize::try_from(self.deployment.shape.partitions).expect("a count");
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.tend();
            let running: Vec<_> = self.answering().map(|(_, service)| running(service)).collect();
            if running.iter().sum::<usize>() == partitions && !running.contains(&0) {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain until every partition is run: {:#?}", self.stands());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What each process says of itself.
    fn stands(&self) -> Vec<String> {
        let stand = |(instance, service): (&String, &Service)| {
            let [alive, ready] = ["/livez", "/readyz"].map(|path| service.get(path).map(|(_, body)| body));
            format!("{instance}: {alive:?}, {ready:?}")
        };
        self.answering().map(stand).collect()
    }

    /// Open sessions, as the processes' own gauges have it.
    pub fn open_sessions(&self) -> usize {
        self.answering().filter_map(|(_, service)| service.metric("duplex_sessions_open")).sum::<f64>() as usize
    }

    pub fn log(&self, instance: &str) -> String {
        self.members[instance].log()
    }

    /// SIGTERM to all at once; waits until they have drained.
    pub fn drain(mut self) {
        self.members.values().for_each(|service| service.signal("TERM"));
        for (instance, service) in &mut self.members {
            let status = until("the service has drained", || service.ended());
            assert!(status.success(), "{instance} ended with {status}");
        }
    }

    fn member(&mut self, instance: &str) -> Service {
        self.members.remove(instance).unwrap_or_else(|| panic!("{instance} does not run"))
    }

    fn answering(&self) -> impl Iterator<Item = (&String, &Service)> {
        self.members.iter().filter(|(instance, _)| !self.stopped.contains(*instance))
    }
}

fn running(service: &Service) -> usize {
    let (_, body) = service.get("/readyz").unwrap_or_default();
    let count = |line: &str| line.split_once("running ")?.1.split(' ').next()?.parse::<usize>().ok();
    body.lines().filter_map(count).sum()
}
