//! An answer that is large and the same for all who ask: written once a second at most, and shared by those who take it.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::time::Clock;

/// How long an answer stands: far less than any two scrapes are apart.
const FRESH: Duration = Duration::from_secs(1);

/// Clones share the answer.
#[derive(Clone)]
pub(super) struct Shared {
    content_type: &'static str,
    written: Arc<Mutex<Option<Written>>>,
}

struct Written {
    at: Duration,
    plain: Bytes,
    /// `None` until somebody asks for it.
    gzip: Option<Bytes>,
}

impl Shared {
    pub fn new(content_type: &'static str) -> Self {
        Self { content_type, written: Arc::default() }
    }

    /// The answer, compressed where the request's headers allow it; `write` is asked where there is no fresh one. Blocks while
    /// another caller writes it, and takes that one's then, however long it took.
    pub fn answer(&self, headers: &HeaderMap, clock: &dyn Clock, write: impl FnOnce() -> Vec<u8>) -> Response {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock.monotonic();
        let fresh = written.take().filter(|written| now.saturating_sub(written.at) < FRESH);
        let written = written.insert(fresh.unwrap_or_else(|| {
            let plain = write().into();
            Written { at: clock.monotonic(), plain, gzip: None }
        }));
        let head = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.content_type)),
            (header::VARY, HeaderValue::from_static("accept-encoding")),
        ];
        if accepts_gzip(headers) {
            let gzip = written.gzip.get_or_insert_with(|| compressed(&written.plain)).clone();
            (head, [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))], gzip).into_response()
        } else {
            (head, written.plain.clone()).into_response()
        }
    }
}

/// Whether `Accept-Encoding` has gzip, and not with a weight of 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

fn compressed(plain: &[u8]) -> Bytes {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(plain).and_then(|()| gzip.finish()).expect("a vector takes everything").into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::time::Timestamp;

    /// Stands still at so many milliseconds.
    struct At(u64);

    impl Clock for At {
        fn now(&self) -> Timestamp {
            Timestamp(0)
        }
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0)
        }
    }

    fn asking(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(encoding))])
    }

    fn body(answer: Response) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(axum::body::to_bytes(answer.into_body(), usize::MAX)).unwrap().to_vec()
    }

    #[test]
    fn those_who_ask_at_once_share_what_is_written_once() {
        let (shared, times) = (Shared::new("text/plain"), AtomicU32::new(0));
        let write = || {
            times.fetch_add(1, Ordering::Relaxed);
            b"figures".to_vec()
        };
        thread::scope(|scope| {
            for encoding in ["gzip", "identity"].repeat(8) {
                scope.spawn(|| drop(shared.answer(&asking(encoding), &At(7_000), write)));
            }
        });
        assert_eq!(times.load(Ordering::Relaxed), 1);
        shared.answer(&HeaderMap::new(), &At(7_999), write);
        assert_eq!(times.load(Ordering::Relaxed), 1);
        shared.answer(&HeaderMap::new(), &At(8_000), write);
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn it_is_compressed_for_those_who_take_that() {
        let shared = Shared::new("text/plain");
        let text = "duplex_run_sessions{} 1\n".repeat(1_000);
        for (encoding, is_gzip) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzipped", false),
            ("gzip;q=lots", false),
            ("identity", false),
        ] {
            let answer = shared.answer(&asking(encoding), &At(0), || text.clone().into_bytes());
            assert_eq!(answer.headers().get(header::CONTENT_ENCODING).is_some(), is_gzip, "{encoding}");
            assert_eq!(answer.headers()[header::VARY], "accept-encoding");
            let body = body(answer);
            let mut plain = String::new();
            match is_gzip {
                true => GzDecoder::new(&*body).read_to_string(&mut plain).unwrap(),
                false => (&*body).read_to_string(&mut plain).unwrap(),
            };
            assert_eq!(plain, text, "{encoding}");
            assert_eq!(body.len() < text.len() / 5, is_gzip, "{encoding}");
        }
    }
}
