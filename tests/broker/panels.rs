//! What people look at: a real Prometheus scrapes the service, and every panel's and every rule's query has data.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::topics::{Judge, send_all};
use crate::wait::{until, until_true};
use crate::{cluster, deployment, expected};

/// Queries that have no data while all is well, and why.
const EMPTY_BY_DESIGN: [(&str, &str); 2] = [
    ("duplex_restore_records_left", "only while a partition is being restored"),
    ("duplex_barge_in_seconds_bucket", "only where a user cut a response short"),
];

const RULES: [&str; 2] = ["recording.yml", "alerts.yml"];

/// How the names of the service's metrics and of the recording rules begin.
const OURS: [&str; 3] = ["duplex_", "duplex:", "process_"];

/// A Prometheus that scrapes one target every second. It ends with this value.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(files: &Path, target: SocketAddr) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], cluster::free_port()));
        // The rules as they are, evaluated as often as the target is scraped.
        for name in RULES {
            let rules = fs::read_to_string(deploy("prometheus").join(name)).expect("rules are there");
            fs::write(files.join(name), rules.replace("interval: 30s", "interval: 1s")).expect("rules can be written");
        }
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: {RULES:?}\n\
             scrape_configs:\n  - {{job_name: duplex-collector, static_configs: [{{targets: [\"{target}\"]}}]}}\n"
        );
        let path = files.join("prometheus.yml");
        fs::write(&path, config).expect("the configuration can be written");
        let log = File::create(files.join("prometheus.log")).expect("a log file");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", files.join("prometheus").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(log)
            .spawn()
            .expect("prometheus is installed");
        Self { child, address }
    }

    /// The answer to a GET of its API; `None` while nobody answers.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The series that a query gives.
    fn series(&self, query: &str) -> usize {
        let answer = self.get(&format!("/api/v1/query?query={}", encoded(query))).expect("prometheus answers");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().map_or(0, Vec::len)
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn encoded(query: &str) -> String {
    query.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "%{byte:02X}").expect("a string takes everything");
        text
    })
}

fn deploy(what: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(what)
}

/// Every panel's and every variable's queries, by dashboard and panel, the variables filled in.
fn panel_queries() -> Vec<(String, String)> {
    let variables =
        [("$__rate_interval", "1m"), ("$instance", ".*"), ("$run", "default"), ("$model", "all"), ("$window", "5m")];
    let mut queries = Vec::new();
    for entry in fs::read_dir(deploy("grafana/dashboards")).expect("dashboards are there") {
        let path = entry.expect("an entry").path();
        let dashboard: Value = serde_json::from_slice(&fs::read(&path).expect("a file")).expect("JSON");
        for variable in dashboard["templating"]["list"].as_array().expect("variables") {
            let query = variable["query"]["query"].as_str();
            // Of the other kinds the queries are Grafana's own.
            if let Some(query) = query.and_then(|query| query.strip_prefix("query_result(")?.strip_suffix(')')) {
                queries
                    .push((format!("{} / {}", dashboard["title"], variable["name"]), query.replace("$__range", "1h")));
            }
        }
        for panel in dashboard["panels"].as_array().expect("panels") {
            if panel["type"] == "row" {
                continue;
            }
            let name = format!(
                "{} / {}",
                dashboard["title"].as_str().expect("a title"),
                panel["title"].as_str().expect("a title")
            );
            assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{name} has no description");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{name} names a data source");
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("a query").to_owned();
                let filled = variables.iter().fold(query, |query, (name, value)| query.replace(name, value));
                assert!(!filled.contains('$'), "{name}: a variable is left in {filled}");
                queries.push((name.clone(), filled));
            }
        }
    }
    queries
}

/// Every rule, once each has been evaluated.
fn rules(prometheus: &Prometheus) -> Vec<Value> {
    until("every rule has been evaluated", || {
        let answer = prometheus.get("/api/v1/rules")?;
        let groups = answer["data"]["groups"].as_array().expect("groups");
        let rules: Vec<_> =
            groups.iter().flat_map(|group| group["rules"].as_array().expect("rules")).cloned().collect();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    })
}

/// The metrics of the service that the rules name, by rule.
fn rule_metrics(prometheus: &Prometheus) -> BTreeMap<String, Vec<String>> {
    let rules = rules(prometheus);
    let metrics = rules.iter().map(|rule| {
        assert_eq!(rule["health"], "ok", "{rule}");
        let query = rule["query"].as_str().expect("a query");
        // A part or a quantile of a handful says nothing: whoever is woken by it looks in vain.
        let is_relative = ["ratio", "quantile", "_p90", "_p99"].iter().any(|part| query.contains(part));
        assert!(rule["type"] != "alerting" || !is_relative || query.contains(">= 30"), "no least number: {query}");
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let words = query.split(|c| !is_of_name(c));
        let is_ours = |word: &&str| *word == "up" || OURS.iter().any(|prefix| word.starts_with(prefix));
        let own = words.filter(is_ours);
        (rule["name"].as_str().expect("a name").to_owned(), own.map(str::to_owned).collect())
    });
    metrics.collect()
}

fn why_empty(query: &str) -> Option<&'static str> {
    EMPTY_BY_DESIGN.iter().find(|(part, _)| query.contains(part)).map(|(_, why)| *why)
}

#[test]
fn every_panel_and_every_rule_has_data_from_a_real_prometheus() {
    let deployment = deployment("panels");
    let service = deployment.start_ready("a", &[]);
    let prometheus = Prometheus::start(deployment.files.path(), service.address());
    until_true("the service is scraped", || {
        prometheus.get("/-/ready");
        prometheus
            .get("/api/v1/query?query=duplex_records_total")
            .is_some_and(|answer| answer["data"]["result"].as_array().is_some_and(|series| !series.is_empty()))
    });
    // Counters begin at 0 and move afterwards, as rates need it.
    let mut records = expected::traffic(8, 60, expected::now() - Duration::from_secs(60 * 60));
    let open = records.split_off(records.len() - records.len() / 10);
    send_all(&deployment, &records);
    let mut judge = Judge::of(&deployment, "bundles");
    judge.read_until(30);
    until_true("the rates are there", || {
        prometheus.series("duplex:response_ttft_slow:ratio_rate5m") > 0
            && prometheus.series("rate(duplex_bundles_total[1m]) > 0") > 0
    });
    let queries = panel_queries();
    let mut empty: Vec<_> = queries.iter().filter(|(_, query)| prometheus.series(query) == 0).collect();
    let (by_design, unexpected): (Vec<_>, Vec<_>) = empty.drain(..).partition(|(_, query)| why_empty(query).is_some());
    let panels: std::collections::BTreeSet<_> = queries.iter().map(|(name, _)| name).collect();
    println!("{} panels, {} queries, {} empty by design", panels.len(), queries.len(), by_design.len());
    for (name, query) in &by_design {
        println!("  {name}: {}", why_empty(query).unwrap_or_default());
    }
    assert!(unexpected.is_empty(), "no data: {unexpected:#?}");

    let rules = rule_metrics(&prometheus);
    println!("{} rules", rules.len());
    for (rule, metrics) in &rules {
        assert!(!metrics.is_empty(), "{rule} names no metric");
        for metric in metrics.iter().filter(|metric| why_empty(metric).is_none()) {
            until_true(&format!("{metric} of {rule} has data"), || prometheus.series(metric) > 0);
        }
    }
    send_all(&deployment, &open);
    service.terminate_well();
}
