//! `demo`: the whole product without any set-up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::duplex;

/// A demo that goes on serving; ended when it is dropped.
struct Demo {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let mut child = duplex().arg("demo").args(arguments).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    /// The output up to a line that has `word` in it.
    fn read_until(&mut self, word: &str) -> Vec<String> {
        let mut read = Vec::new();
        for line in self.lines.by_ref() {
            read.push(line.expect("UTF-8"));
            if read.last().is_some_and(|line| line.contains(word)) {
                return read;
            }
        }
        panic!("the demo ended without {word:?}:\n{}", read.join("\n"));
    }

    fn terminate(&mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill starts").success());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the demo serves");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: demo\r\nConnection: close\r\n\r\n").expect("writes");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("reads");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    response
}

/// The cells of the table's line about `name`: samples, mean, p50, p99.
fn row(output: &[String], name: &str) -> Vec<f64> {
    let line = output.iter().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name}"));
    line.split(['│', '┆']).filter_map(|cell| cell.trim().parse().ok()).collect()
}

fn gauge(metrics: &str, name: &str) -> f64 {
    series(metrics, &format!(r#"{name}{{model="all",run="demo",window="all"}} "#))
}

fn series(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)).unwrap_or_else(|| panic!("no {series}"));
    line.parse().expect("a number")
}

#[test]
fn the_demo_shows_healthy_live_traffic_with_the_same_numbers_in_its_table_and_on_its_metrics() {
    let mut demo = Demo::start(&["--sessions", "40", "--seed", "7", "--keep-running"]);
    let head = demo.read_until("/metrics");
    assert!(head.iter().any(|line| line.starts_with("  status   http://")), "{}", head.join("\n"));
    let address = head.last().and_then(|line| line.split("http://").nth(1)).and_then(|rest| rest.split('/').next());
    let address = address.expect("an address").to_owned();
    let output = demo.read_until("Ctrl-C");
    assert!(output.iter().any(|line| line.starts_with("40 sessions made, 40 bundles")), "{}", output.join("\n"));
    let metrics = get(&address, "/metrics");
    for (name, gauges, exponent) in [
        ("stream TTFT", "duplex_stream_ttft_seconds", -3),
        ("stream TTFP", "duplex_stream_ttfp_seconds", -3),
        ("stream RTF", "duplex_stream_rtf", 0),
        ("response RTF", "duplex_response_rtf", 0),
    ] {
        let shown = row(&output, name);
        let samples = gauge(&metrics, &format!("{}_samples", gauges.trim_end_matches("_seconds")));
        let [mean, p50, p99] = ["mean", "p50", "p99"].map(|what| gauge(&metrics, &format!("{gauges}_{what}")));
        // The table's own digits.
        let in_unit = |value: f64| format!("{value}e{exponent}").parse().expect("a number");
        let expected = [shown[0], in_unit(shown[1]), in_unit(shown[2]), in_unit(shown[3])];
        assert_eq!([samples, mean, p50, p99], expected, "{name}");
    }
    assert!(get(&address, "/report").contains("\"sessions\":40"));
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    // What is shown is of now, and healthy.
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let age_s = now_s - series(&metrics, r#"duplex_run_last_event_timestamp_seconds{run="demo"} "#);
    assert!((-1.0..60.0).contains(&age_s), "the last event was {age_s} s ago");
    let [ttft, ttfp, rtf] = ["response TTFT", "response TTFP", "response RTF"].map(|name| row(&output, name)[3]);
    assert!(ttft < 1_000.0 && ttfp < 2_000.0 && rtf < 0.9, "p99 of {ttft} ms, {ttfp} ms, {rtf}");
    // And it goes on.
    let until = Instant::now() + Duration::from_secs(120);
    while gauge(&get(&address, "/metrics"), "duplex_run_sessions") <= 40.0 {
        assert!(Instant::now() < until, "no further session has finished");
        thread::sleep(Duration::from_millis(500));
    }
    demo.terminate();
    assert_eq!(demo.child.wait().expect("ends").code(), Some(0));
}
