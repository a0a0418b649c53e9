//! Names that are made to be large, and many scrapes at once: what `/metrics` and `/report` take is bounded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use duplex_collector::admin::{State, bind, serve};
use duplex_collector::clock::SystemClock;
use duplex_collector::metrics::{Health, Metrics};
use duplex_collector::report::{RunView, ViewSettings};
use duplex_collector::time::{Clock, Timestamp};
use tokio::runtime::Runtime;

use crate::partition::memory;

const SESSIONS: u64 = 2_000;
const AT_ONCE: usize = 8;

/// What came of it, in bytes.
pub struct Scraped {
    /// Of the largest answer; those of a plain scrape are its series, but for the few of its head.
    pub lines: usize,
    pub bytes: usize,
    /// By how much the memory of the process grew at most while all of them were answered.
    pub grown: u64,
}

/// As many requests at once for `path`; the answers are taken once all of them have begun.
pub fn scrape(path: &str, encoding: &str) -> Scraped {
    let clock = SystemClock::new();
    let runs = Arc::new(Mutex::new(view(clock.now())));
    let state = State { metrics: Metrics::new(clock.now()), health: Health::new(), runs, clock: Arc::new(clock) };
    let runtime = Runtime::new().expect("a runtime");
    let listener = runtime.block_on(bind(([127, 0, 0, 1], 0).into())).expect("a port");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(serve(listener, state, None, std::future::pending()));
    let before = memory("VmRSS");
    let mut answers: Vec<TcpStream> = (0..AT_ONCE).map(|_| ask(address, path, encoding)).collect();
    // Once all have begun, none is taken yet.
    answers.iter().for_each(|answer| assert_eq!(answer.peek(&mut [0]).expect("an answer"), 1));
    let (bytes, lines) = answers.iter_mut().map(take).max().expect("some answers");
    Scraped { lines, bytes, grown: memory("VmHWM").saturating_sub(before) }
}

/// Sessions each of which has a run and a model of its own, with names of 1 kB.
fn view(now: Timestamp) -> RunView {
    let mut view = RunView::new(ViewSettings { max_runs: 1_000, ..ViewSettings::default() });
    for session in 0..SESSIONS {
        let name = format!("{}{session}", "n".repeat(1_000));
        let bundle = serde_json::json!({
            "session_id": session.to_string(),
            "request_metrics": [{"response_id": "r", "ttft_ms": 1.0, "ttfp_ms": 1.0, "client_ttft_ms": 1.0,
                                 "client_ttfp_ms": 1.0, "rtf": 1.0, "tpot_ms": 1.0}],
            "session_metrics": {"stream_ttft_ms": 1.0, "stream_ttfp_ms": 1.0, "stream_rtf": 1.0},
            "session": {"run_id": name, "model": name, "end_reason": "closed", "last_event_ms": now},
            "responses": [{"response_id": "r", "status": "completed", "ttft_source": "server", "ttfp_source": "server",
                           "max_audio_gap_ms": 1.0}],
        });
        view.observe(bundle.to_string().as_bytes(), now, now);
    }
    view
}

fn ask(address: SocketAddr, path: &str, encoding: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {encoding}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    stream
}

/// Reads an answer to its end, without keeping it: its bytes, and the lines among them that are no comments.
fn take(stream: &mut TcpStream) -> (usize, usize) {
    let (mut bytes, mut lines, mut buffer, mut last) = (0, 0, vec![0; 1 << 16], b'\n');
    loop {
        let read = stream.read(&mut buffer).expect("an answer");
        if read == 0 {
            return (bytes, lines);
        }
        bytes += read;
        for byte in &buffer[..read] {
            lines += usize::from(last == b'\n' && *byte != b'#');
            last = *byte;
        }
    }
}
