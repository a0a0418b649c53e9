//! The routes and their answers.
//!
//! GET and HEAD only. Figures are read from the run view when asked for; sorting them can take a while, so that is
//! done off the server's threads. What has the figures of all runs is shared by those who ask.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{self, Query};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tracing::error;

use super::page;
use super::shared::Shared;
use crate::metrics::{self, Health, Metrics, Probe, ReplicaStatus};
use crate::report::{RunStatus, RunSummary, RunView, StatusQuery, Verdict};
use crate::time::{Clock, Timestamp};

/// What the server reads from.
#[derive(Clone)]
pub struct State {
    pub metrics: Metrics,
    pub health: Health,
    pub runs: Arc<Mutex<RunView>>,
    /// The clock whose monotonic time the workers poll by.
    pub clock: Arc<dyn Clock + Send + Sync>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("health", &self.health).finish_non_exhaustive()
    }
}

pub(super) fn router(state: State) -> Router {
    Router::new()
        .merge(page::routes())
        .route("/metrics", get(metrics).with_state((state.clone(), Shared::new(metrics::CONTENT_TYPE))))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(async || Json(Version::BUILT)))
        .route("/report", get(report).with_state((state.clone(), Shared::new("application/json"))))
        .route("/status", get(status))
        .fallback(async || (StatusCode::NOT_FOUND, "not found; the page at / links what there is\n"))
        .method_not_allowed_fallback(async || (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n"))
        .layer(middleware::map_response(async |response| with_fixed_headers(response)))
        .with_state(state)
}

/// No answer may be taken for another type than it says, taken in by a page of another site, or served from a cache.
pub(super) fn with_fixed_headers(mut response: Response) -> Response {
    const FIXED: [(HeaderName, HeaderValue); 3] = [
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    response.headers_mut().extend(FIXED);
    response
}

async fn metrics(extract::State((state, shared)): extract::State<(State, Shared)>, headers: HeaderMap) -> Response {
    off_thread(move || {
        shared.answer(&headers, &*state.clock, || {
            let (summaries, not_shown) = {
                let (mut runs, now) = (lock(&state.runs), state.clock.now());
                (runs.summaries(now), runs.runs_not_shown(now))
            };
            state.metrics.set_runs(summaries, not_shown);
            state.metrics.set_health(&state.health, state.clock.monotonic());
            state.metrics.encode().into_bytes()
        })
    })
    .await
}

async fn livez(extract::State(state): extract::State<State>) -> Response {
    probe(&state.health.liveness(state.clock.monotonic()))
}

async fn readyz(extract::State(state): extract::State<State>) -> Response {
    probe(&state.health.readiness(state.clock.monotonic()))
}

fn probe(probe: &Probe) -> Response {
    let status = if probe.passes { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, format!("{}\n", probe.lines.join("\n"))).into_response()
}

#[derive(Deserialize)]
struct ReportQuery {
    run: Option<String>,
}

async fn report(
    extract::State((state, shared)): extract::State<(State, Shared)>,
    Query(query): Query<ReportQuery>,
    headers: HeaderMap,
) -> Response {
    off_thread(move || match query.run {
        Some(run) => Json(Report::of(&mut lock(&state.runs), Some(&run), state.clock.now())).into_response(),
        None => shared.answer(&headers, &*state.clock, || {
            let report = Report::of(&mut lock(&state.runs), None, state.clock.now());
            serde_json::to_vec(&report).expect("figures can be written")
        }),
    })
    .await
}

#[derive(Serialize)]
struct Report {
    runs: Vec<RunSummary>,
    /// How many more are on the topic; null while that is not known.
    runs_not_shown: Option<usize>,
}

impl Report {
    /// All runs, or the one asked for; none when it is not shown.
    fn of(view: &mut RunView, asked: Option<&str>, now: Timestamp) -> Self {
        let runs = match asked {
            Some(run) => view.summary(run, now).into_iter().collect(),
            None => view.summaries(now),
        };
        Self { runs, runs_not_shown: view.runs_not_shown(now) }
    }
}

async fn status(extract::State(state): extract::State<State>, Query(query): Query<StatusQuery>) -> Response {
    off_thread(move || {
        let now_ms = state.clock.now();
        let run = lock(&state.runs).status(&query, now_ms);
        let replica = state.metrics.status(&state.health, state.clock.monotonic(), now_ms);
        let verdict = Verdict::on(&run, &replica.judged(), now_ms);
        Json(Status { version: Version::BUILT.version, now_ms, verdict, replica, run }).into_response()
    })
    .await
}

/// What the status page and `top` show.
#[derive(Serialize)]
struct Status {
    version: &'static str,
    now_ms: Timestamp,
    verdict: Verdict,
    #[serde(flatten)]
    replica: ReplicaStatus,
    #[serde(flatten)]
    run: RunStatus,
}

#[derive(Serialize)]
struct Version {
    name: &'static str,
    version: &'static str,
}

impl Version {
    const BUILT: Self = Self { name: env!("CARGO_PKG_NAME"), version: env!("CARGO_PKG_VERSION") };
}

async fn off_thread(answer: impl FnOnce() -> Response + Send + 'static) -> Response {
    spawn_blocking(answer).await.unwrap_or_else(|error| {
        error!(%error, "answer failed");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    })
}

/// Locks the run view. One that panicked while it held the lock can have left out samples, not more.
fn lock(runs: &Mutex<RunView>) -> MutexGuard<'_, RunView> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::{bind, serve};
    use super::*;
    use crate::ids::Partition;
    use crate::metrics::WorkerObserver;
    use crate::report::ViewSettings;
    use crate::worker::{Lag, Observer, TaskState};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Stands still at 130 s.
    struct Stopped;

    impl Clock for Stopped {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::from_secs(130)
        }
    }

    /// A process before its first worker and its first bundle.
    pub fn state() -> State {
        State {
            metrics: Metrics::new(Timestamp(0)),
            health: Health::new(),
            runs: Arc::new(Mutex::new(RunView::new(ViewSettings::default()))),
            clock: Arc::new(Stopped),
        }
    }

    /// The answer to one request over a loopback connection: its head in lower case, and its body.
    async fn ask(state: &State, request_line: &str) -> (String, String) {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = tokio::spawn(serve(listener, state.clone(), None, std::future::pending()));
        let request = format!("{request_line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        peer.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        server.abort();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    }

    fn view(run_ids: &[&str]) -> RunView {
        let mut view = RunView::new(ViewSettings { windows: Vec::new(), ..ViewSettings::default() });
        for run_id in run_ids {
            let bundle = serde_json::json!({
                "request_metrics": [{}, {}], "session_metrics": {"stream_ttft_ms": 250.5},
                "session": {"run_id": run_id, "model": "m", "end_reason": "closed", "last_event_ms": 7},
            });
            view.observe(bundle.to_string().as_bytes(), Timestamp(7), Timestamp(7));
        }
        view
    }

    #[tokio::test]
    async fn every_route_has_its_status_and_type() {
        let text = "text/plain; charset=utf-8";
        for (request, status, content_type) in [
            ("GET /", "200", "text/html; charset=utf-8"),
            ("GET /page/page.css", "200", "text/css; charset=utf-8"),
            ("GET /page/page.js", "200", "text/javascript; charset=utf-8"),
            ("GET /page/secrets.js", "404", text),
            ("GET /page", "404", text),
            ("POST /", "405", text),
            ("GET /metrics", "200", metrics::CONTENT_TYPE),
            ("GET /livez", "200", text),
            ("GET /readyz", "503", text),
            ("GET /version", "200", "application/json"),
            ("GET /report", "200", "application/json"),
            ("GET /report?run=a&run=b", "400", text),
            ("GET /status", "200", "application/json"),
            ("GET /status?run=r&model=all&window=5m", "200", "application/json"),
            ("GET /status?windows=5m", "400", text),
            ("GET /secrets", "404", text),
            ("POST /metrics", "405", text),
            ("DELETE /report", "405", text),
            ("POST /secrets", "404", text),
        ] {
            let (head, body) = ask(&state(), request).await;
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{request}: {head}");
            assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{request}: {head}");
            assert!(head.contains("x-content-type-options: nosniff\r\n"), "{request}: {head}");
            assert!(head.contains("cross-origin-resource-policy: same-origin\r\n"), "{request}: {head}");
            assert!(head.contains("cache-control: no-store\r\n"), "{request}: {head}");
            assert_eq!(head.contains("allow: get,head\r\n"), status == "405", "{request}: {head}");
            assert!(!body.is_empty(), "{request}");
        }
    }

    #[tokio::test]
    async fn head_is_get_without_a_body() {
        for path in ["/", "/page/page.js", "/metrics", "/livez", "/version", "/report"] {
            let (head, body) = ask(&state(), &format!("HEAD {path}")).await;
            assert!(head.starts_with("http/1.1 200 "), "{path}: {head}");
            assert_eq!(body, "", "{path}");
        }
    }

    #[tokio::test]
    async fn the_page_runs_nothing_but_its_own_scripts() {
        let (head, _) = ask(&state(), "GET /").await;
        let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
        assert!(head.contains(&format!("\r\ncontent-security-policy: {policy}\r\n")), "{head}");
        assert!(head.contains("\r\nreferrer-policy: no-referrer\r\n"), "{head}");
    }

    #[tokio::test]
    async fn the_probes_answer_with_their_reasons() {
        let state = state();
        let mut worker = WorkerObserver::new(&state.metrics, &state.health, Duration::ZERO);
        worker.away(None);
        worker.task(Partition(0), TaskState::Restoring, 0);
        worker.task(Partition(3), TaskState::Restoring, 0);
        let (head, body) = ask(&state, "GET /readyz").await;
        assert!(head.starts_with("http/1.1 503 "), "{head}");
        let hangs = "worker 0: a Kafka call has not answered for 130 s\n";
        assert_eq!(body, format!("{hangs}partition 0 restoring\npartition 3 restoring\n"));
        let (head, body) = ask(&state, "GET /livez").await;
        assert!(head.starts_with("http/1.1 503 "), "{head}");
        assert_eq!(body, "worker 0: not polled for 130 s\n");

        worker.polled(Duration::from_secs(130));
        worker.task(Partition(0), TaskState::Running, 0);
        worker.task(Partition(3), TaskState::Running, 0);
        let (head, body) = ask(&state, "GET /readyz").await;
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        assert_eq!(body, "ready\nworker 0: running 2 partitions: 0, 3\n");
        assert_eq!(ask(&state, "GET /livez").await.1, "alive\n");
    }

    #[tokio::test]
    async fn a_scrape_tells_how_long_nothing_has_moved() {
        let state = state();
        let mut worker = WorkerObserver::new(&state.metrics, &state.health, Duration::ZERO);
        worker.away(None);
        worker.polled(Duration::from_secs(100));
        worker.task(Partition(0), TaskState::Running, 0);
        worker.lag(Partition(0), Lag { records: 5, undecided: 0, seconds: 1.0 });
        let (_, body) = ask(&state, "GET /metrics").await;
        assert!(body.contains("\nduplex_poll_gap_seconds{worker=\"0\"} 30\n"), "{body}");
        assert!(body.contains("\nduplex_partition_stall_seconds{partition=\"0\"} 30\n"), "{body}");
        worker.task(Partition(0), TaskState::Closed, 0);
        let (_, body) = ask(&state, "GET /metrics").await;
        assert!(!body.contains("duplex_partition_stall_seconds{"), "{body}");
    }

    #[tokio::test]
    async fn a_scrape_drops_the_gauges_of_runs_that_left() {
        let state = state();
        state.metrics.set_runs(view(&["gone"]).summaries(Timestamp(7)), None);
        let (_, body) = ask(&state, "GET /metrics").await;
        assert!(body.contains("\nduplex_records_total 0\n"), "{body}");
        assert!(!body.contains("gone"), "{body}");
    }

    #[tokio::test]
    async fn the_version_names_the_program() {
        let (_, body) = ask(&state(), "GET /version").await;
        let version: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(version["name"], "duplex-collector");
        assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    }

    #[tokio::test]
    async fn a_report_without_bundles_has_no_runs() {
        assert_eq!(ask(&state(), "GET /report").await.1, r#"{"runs":[],"runs_not_shown":0}"#);
        assert_eq!(ask(&state(), "GET /report?run=a%20b").await.1, r#"{"runs":[],"runs_not_shown":0}"#);
    }

    #[tokio::test]
    async fn the_status_has_the_verdict_on_what_it_shows() {
        let status: serde_json::Value = serde_json::from_str(&ask(&state(), "GET /status").await.1).unwrap();
        let (verdict, recent) = (&status["verdict"], &status["recent"]);
        assert_eq!(verdict["headline"], "This replica is not ready");
        assert_eq!((&verdict["state"], &verdict["checks"][0]["value"]), (&"bad".into(), &"not ready".into()));
        assert_eq!(recent["events_of_no_duplex_protocol"], 0);
    }

    #[test]
    fn a_report_has_all_runs_or_the_one_asked_for() {
        let json = |asked| serde_json::to_value(Report::of(&mut view(&["a", "b"]), asked, Timestamp(7))).unwrap();
        assert_eq!(json(None)["runs"].as_array().map(Vec::len), Some(2));
        let ttft = serde_json::json!(
            {"count": 1, "mean": 250.5, "p50": 250.5, "p90": 250.5, "p99": 250.5, "max": 250.5, "approximate": false}
        );
        let part = |model| {
            serde_json::json!({
                "model": model, "window": "all", "sessions": 1, "sessions_by_end_reason": {"closed": 1},
                "sessions_by_stream_start": {}, "sessions_truncated": 0, "sessions_with_clock_faults": 0,
                "responses": 2, "approximate": false, "figures": {"duplex_stream_ttft_ms": ttft},
            })
        };
        assert_eq!(
            json(Some("b")),
            serde_json::json!({"runs": [{
                "run_id": "b",
                "last_event_ms": 7,
                "sessions": 1,
                "sessions_by_end_reason": {"closed": 1},
                "responses": 2,
                "duplex_stream_ttft_ms": {"count": 1, "mean": 250.5, "p50": 250.5, "p99": 250.5},
                "parts": [part("all"), part("m")],
            }], "runs_not_shown": 0})
        );
        assert_eq!(json(Some("c"))["runs"], serde_json::json!([]));
    }
}
