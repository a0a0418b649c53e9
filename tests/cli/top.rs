//! `top`: one frame of a service's status as text, and what it says where there is none.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use serde_json::{Value, json};

use crate::{run, text};

/// Answers one request with this status line and body; the address to ask and, once asked, the path that was.
fn serving(status_line: &str, body: String) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let head = format!("HTTP/1.1 {status_line}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut lines = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
        let request = lines.next().expect("a request");
        assert!(lines.any(|line| line.is_empty()), "the head ends");
        // The peer may have enough before all is sent.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        request.split(' ').nth(1).unwrap_or_default().to_owned()
    });
    (address, served)
}

fn figures(count: u64, of: [f64; 5]) -> Value {
    let [mean, p50, p90, p99, max] = of;
    json!({"count": count, "mean": mean, "p50": p50, "p90": p90, "p99": p99, "max": max, "approximate": false})
}

fn status() -> Value {
    let ttft = "duplex_response_ttft_ms";
    let slot = |start_ms: i64, p50: f64, p99: f64| json!({"start_ms": start_ms, "sessions": 1, "figures": {ttft: figures(9, [p50, p50, p50, p99, p99])}});
    json!({
        "version": "0.1.0", "now_ms": 1_790_001_000_000_i64,
        "verdict": {
            "state": "bad", "headline": "This replica is not ready",
            "checks": [
                {"name": "replica", "title": "This replica", "state": "bad", "value": "not ready", "objective": "live and ready"},
                {"name": "rtf", "title": "Real time (RTF)", "state": "unknown", "value": "9 of 30 responses", "objective": "at most 1"},
            ],
            "notes": [format!("The stream of a session starts {}.", "somewhere ".repeat(9).trim_end())],
        },
        "live": {"passes": true, "lines": ["alive"]},
        "ready": {"passes": false, "lines": ["partition 3 restoring, 12345 records left", "draining\u{1b}[2J"]},
        "sessions_open": 12.0, "lag": {"records": 34.0, "seconds": 5.25},
        "dead_letters": {"invalid_json": 2, "too_deep": 1}, "partitions": {"running": 7, "restoring": 1},
        "complete": true, "runs": ["nightly\r", "older"], "windows": ["5m", "1h"],
        "run": {
            "run_id": "nightly\r", "last_event_ms": 1_790_000_999_000_i64, "sessions": 200, "responses": 674, "sessions_by_end_reason": null,
            "parts": [{
                "model": "all", "window": "5m", "sessions": 200, "responses": 674, "approximate": false,
                "sessions_by_end_reason": {"closed": 190, "expired": 10},
                "figures": {
                    "duplex_stream_ttft_ms": figures(197, [3143.682, 2994.534, 4434.238, 6375.456, 9106.197]),
                    ttft: figures(674, [349.74, 312.25, 558.989, 980.126, 1476.669]),
                    "duplex_response_rtf": figures(674, [0.650754, 0.6, 0.886298, 1.681425, 2.028447]),
                },
            }],
        },
        "view": {
            "model": "all", "window": "5m", "slot_ms": 60_000,
            "slots": [slot(0, 300.0, 900.5), slot(60_000, 150.0, 450.0), slot(180_000, 400.0, 1000.0)], "shapes": {},
        },
        "last_sessions": [
            {
                "session_id": "s-1\u{1b}]0;owned\u{7}\u{202e}", "model": "m", "end_reason": "closed", "started_ms": 0,
                "ended_ms": 9, "duration_ms": 20_000.0, "errors": 0, "truncated": false, "stream_ttft_ms": 3100.32,
                "stream_ttfp_ms": 3100.3, "stream_rtf": 2.794182, "more_responses": 0,
                "responses": [
                    {"status": "completed", "created_ms": 0.0, "first_text_ms": 1.0, "first_audio_ms": 2000.0,
                     "last_audio_ms": 9000.0, "ended_ms": 9001.0, "audio_packets": 3, "audio_duration_ms": 9.0},
                    {"status": "cancelled", "created_ms": 10000.0, "first_text_ms": null, "first_audio_ms": 12000.0,
                     "last_audio_ms": 15000.0, "ended_ms": 19999.0, "audio_packets": 3, "audio_duration_ms": 9.0},
                ],
            },
            {
                "session_id": "s-2", "model": null, "end_reason": "idle_timeout", "duration_ms": null, "errors": 1,
                "stream_ttft_ms": null, "stream_ttfp_ms": null, "stream_rtf": null, "responses": [], "more_responses": 0,
            },
        ],
    })
}

const FRAME: &str = r"This replica is not ready
  This replica: not ready (has to be: live and ready)
duplex-collector 0.1.0  http://ADDRESS  14:30:00 UTC
not ready: partition 3 restoring, 12345 records left; draining\u{1b}[2J  7 partitions running, 1 re…
run nightly\r (1 of 2)  model all  window 5m  last event 2026-09-21 14:29:59 UTC
sessions 200 finished, 12 open here   lag 34 records, 5.25 s
dead letters 3 (invalid_json 2, too_deep 1)  duplex-collector dead-letters list
The stream of a session starts somewhere somewhere somewhere somewhere somewhere somewhere somewhere
somewhere somewhere.

                      count      mean       p50       p90       p99       max
stream TTFT    ms       197     3,140     2,990     4,430     6,380     9,110
stream TTFP    ms      none
stream RTF             none
response TTFT  ms       674       350       312       559       980     1,480
response TTFP  ms      none
response RTF            674     0.651       0.6     0.886      1.68      2.03
ended  closed 190  expired 10   responses 674

over time, from 0 up; a bar is 1 min, the last is on the right
response TTFT  p50 ▆▃ █  150 to 400 ms
               p99 █▄ █  450 to 1,000 ms
last sessions         end           took s stream TTFT ms stream RTF · waits █ audio x cut
s-1\u{1b}]0;owned\u{… closed            20          3,100       2.79 ··████████████···█████      x
s-2                   idle_timeout       -              -          -
";

#[test]
fn one_frame_has_the_verdict_first_three_digits_and_nothing_that_a_terminal_acts_on() {
    let (address, asked) = serving("200 OK", status().to_string());
    let url = format!("http://{address}/");
    let output = run(&["top", "--once", "--url", &url, "--run", "night ly&x=1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let frame = text(&output.stdout);
    assert_eq!(asked.join().expect("asked"), "/status?run=night%20ly%26x%3D1");
    assert_eq!(frame, FRAME.replace("ADDRESS", &address));
    assert!(!frame.contains(|c: char| c.is_control() && c != '\n'), "{frame:?}");
}

#[test]
fn without_a_terminal_it_prints_one_frame_and_says_what_is_not_there() {
    let mut status = status();
    (status["run"], status["view"]) = (Value::Null, Value::Null);
    let (address, asked) = serving("200 OK", status.to_string());
    let output = run(&["top", "--url", &address, "--run", "no\u{1b}such", "--window", "5m"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(asked.join().expect("asked"), "/status?run=no%1Bsuch&window=5m");
    let frame = text(&output.stdout);
    assert!(frame.contains("\nno run no\\u{1b}such; there are: nightly\\r, older\n"), "{frame}");
}

#[test]
fn no_service_exits_69_with_the_remedy() {
    // Nothing listens on the discard port.
    let output = run(&["top", "--once", "--url", "127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(69));
    assert_eq!(
        text(&output.stderr),
        "error: no service answers at http://127.0.0.1:9/: connection refused; is it running there? --url is the address of \
         its admin.listen\n"
    );
}

#[test]
fn another_server_is_told_from_the_service() {
    let large = format!("{{\"version\":\"{}\"}}", "x".repeat(9 << 20));
    for (status_line, body, why) in [
        ("404 Not Found", "no".to_owned(), "/status has status 404"),
        ("302 Found", String::new(), "/status has status 302"),
        ("200 OK", "<html>\u{1b}".to_owned(), "/status can't be read"),
        ("200 OK", large, "8388608"),
    ] {
        let (address, _) = serving(status_line, body);
        let output = run(&["top", "--once", "--url", &address]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("is no duplex-collector of this release") && said.contains(why), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}
