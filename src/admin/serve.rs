//! The server's life: from the listener to the shutdown.
//!
//! One request a connection, its body never read: all there is to bound is the connections and their time.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;

use axum::Router;
use axum::http::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{self, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::connections::{Connections, Phase, Turn};
use super::guard::{Guard, Rules};
use super::limits::Limits;
use super::opening::{self, Stream};
use super::routes::{self, State};
use super::web_config::WebConfig;

/// Serves until `shutdown` resolves, then finishes the requests in progress, for 2 seconds at most.
pub async fn serve(
    listener: TcpListener,
    state: State,
    web_config: Option<WebConfig>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let guard = Guard::new(web_config.map(Arc::new), Arc::clone(&state.clock));
    serve_within(Limits::DEFAULT, listener, routes::router(state), guard, shutdown).await;
}

pub(super) async fn serve_within(
    limits: Limits,
    mut listener: TcpListener,
    router: Router,
    guard: Guard,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let mut connections = Connections::new(limits.connections);
    // A task of its own, which no crowd of connections delays; it ends with this function.
    let mut following = JoinSet::new();
    following.spawn(guard.clone().follow());
    let serving = async {
        loop {
            // Survives errors, with a pause where the process has no more descriptors.
            let (stream, peer) = Listener::accept(&mut listener).await;
            connections.open(peer.ip(), |turn| connection(stream, router.clone(), guard.rules(), turn, limits)).await;
        }
    };
    tokio::select! {
        biased;
        () = shutdown => {}
        () = serving => {}
    }
    drop(listener);
    if timeout(limits.grace, connections.finish()).await.is_err() {
        warn!("admin server ended before its last request did");
    }
}

/// Answers one request.
async fn connection(stream: TcpStream, router: Router, rules: Rules, turn: Turn, limits: Limits) {
    let answered = async {
        let stream = opening::open(stream, rules.tls()).await?;
        Ok::<_, io::Error>(exchange(stream, router, &rules, &turn, limits).await)
    };
    let answered = tokio::select! {
        answered = timeout(limits.connection, answered) => answered,
        () = head_is_late(&turn, limits) => return debug!("connection ended before its request was there"),
    };
    let mut stream = match answered {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "connection not opened"),
        Err(_) => return debug!("connection ended before its answer was taken"),
    };
    let unread = async {
        stream.shutdown().await?;
        io::copy(&mut stream, &mut io::sink()).await
    };
    let _ = timeout(limits.linger, unread).await;
}

/// Resolves if the request, and the handshake before it, take too long; else never.
async fn head_is_late(turn: &Turn, limits: Limits) {
    sleep(limits.head).await;
    if !turn.is(Phase::Requesting) {
        pending().await
    }
}

/// Answers the request on a stream, and gives the stream back.
async fn exchange(stream: Stream, router: Router, rules: &Rules, turn: &Turn, limits: Limits) -> Stream {
    let router = TowerToHyperService::new(router);
    let answer = service_fn(|request: Request<Incoming>| async {
        let answer = match rules.admit(request.headers(), turn).await {
            Ok(()) => router.call(request).await?,
            Err(refusal) => refusal,
        };
        turn.set(Phase::Taking);
        Ok::<_, Infallible>(rules.with_headers(answer))
    });
    let mut connection = http1::Builder::new()
        .keep_alive(false)
        // The whole time until the request is bounded, not only that of its head.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), answer);
    if let Err(error) = (&mut connection).await {
        // Where it is the peer's fault, the peer was told so and is to read it.
        debug!(%error, "request ended");
    }
    connection.into_parts().io.into_inner()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use axum::routing::get;
    use tokio::io::AsyncReadExt;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    use super::super::{bind, routes};
    use super::*;

    /// More than the sockets' buffers hold.
    const LARGE: usize = 64 << 20;
    /// So long that nothing in these tests ends by it.
    const LONG: Duration = Duration::from_secs(24 * 3600);
    const GET: &[u8] = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    const GET_LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n";

    fn open_to_all() -> Guard {
        Guard::new(None, routes::tests::state().clock)
    }

    async fn serving(limits: Limits) -> SocketAddr {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = routes::router(routes::tests::state()).route("/large", get(async || vec![b'x'; LARGE]));
        tokio::spawn(serve_within(limits, listener, router, open_to_all(), pending()));
        address
    }

    async fn connect(address: SocketAddr, sends: &[u8]) -> TcpStream {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(sends).await.unwrap();
        peer
    }

    /// All that comes until the server closes.
    async fn read(mut peer: TcpStream) -> Vec<u8> {
        let mut answer = Vec::new();
        // A reset is an end like another.
        let _ = peer.read_to_end(&mut answer).await;
        answer
    }

    async fn ask(address: SocketAddr, sends: &[u8]) -> String {
        String::from_utf8(read(connect(address, sends).await).await).unwrap()
    }

    fn is_alive(answer: &str) -> bool {
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nalive\n")
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_finish_its_request_is_closed_on_after_5_s() {
        let address = serving(Limits::DEFAULT).await;
        for sends in [&b""[..], b"GET /livez HTTP/1.1\r\nHost:"] {
            let peer = connect(address, sends).await;
            let connected = Instant::now();
            assert_eq!(read(peer).await, b"");
            assert_eq!(connected.elapsed().as_secs(), 5, "{sends:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_is_dropped_after_30_s() {
        let address = serving(Limits::DEFAULT).await;
        let (requested, peer) = (Instant::now(), connect(address, GET_LARGE).await);
        peer.readable().await.unwrap();
        // The clock goes on once nobody has anything to do: the server can't write more.
        tokio::time::sleep_until(requested + Duration::from_secs(29)).await;
        let other = connect(address, GET_LARGE).await;
        tokio::time::sleep_until(requested + Duration::from_secs(31)).await;
        assert!(read(peer).await.len() < LARGE);
        assert!(read(other).await.len() > LARGE, "it is taken within its time");
    }

    #[tokio::test]
    async fn too_large_a_head_is_refused() {
        let address = serving(Limits { linger: LONG, ..Limits::DEFAULT }).await;
        let many = "a: b\r\n".repeat(101);
        let huge = format!("a: {}\r\n", "b".repeat(16 << 20));
        for headers in [&huge, &many] {
            let answer = ask(address, format!("GET /livez HTTP/1.1\r\n{headers}\r\n").as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 431 "), "{answer:?}");
        }
        let usual = format!("a: {}\r\n", "b".repeat(8 << 10));
        let answer = ask(address, format!("GET /livez HTTP/1.1\r\nHost: x\r\n{usual}\r\n").as_bytes()).await;
        assert!(is_alive(&answer), "{answer:?}");
    }

    #[tokio::test]
    async fn a_body_is_not_read() {
        let address = serving(Limits::DEFAULT).await;
        let large = "Content-Length: 1000000000000\r\n\r\nsome";
        let chunked = "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
        for rest in [large, chunked] {
            let posted = ask(address, format!("POST /livez HTTP/1.1\r\nHost: x\r\n{rest}").as_bytes()).await;
            assert!(posted.starts_with("HTTP/1.1 405 "), "{posted:?}");
            let got = ask(address, format!("GET /livez HTTP/1.1\r\nHost: x\r\n{rest}").as_bytes()).await;
            assert!(is_alive(&got), "{got:?}");
        }
    }

    #[tokio::test]
    async fn a_connection_has_one_request() {
        let address = serving(Limits::DEFAULT).await;
        let answer = ask(address, &[GET, GET].concat()).await;
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer:?}");
        assert!(answer.contains("\r\nconnection: close\r\n"), "{answer:?}");
    }

    #[tokio::test]
    async fn a_crowd_that_sends_nothing_keeps_nobody_out() {
        let address = serving(Limits { connections: 4, head: LONG, connection: LONG, ..Limits::DEFAULT }).await;
        let mut crowd = Vec::new();
        for _ in 0..40 {
            crowd.push(connect(address, b"GET /livez HTTP/1.1\r\n").await);
        }
        assert!(is_alive(&ask(address, GET).await));
        let mut youngest = crowd.pop().unwrap();
        for oldest in crowd.drain(..36) {
            assert_eq!(read(oldest).await, b"");
        }
        youngest.write_all(b"Host: x\r\n\r\n").await.unwrap();
        assert!(is_alive(std::str::from_utf8(&read(youngest).await).unwrap()));
    }

    #[tokio::test]
    async fn a_crowd_that_takes_no_answer_keeps_nobody_out() {
        let address = serving(Limits { connections: 4, head: LONG, connection: LONG, ..Limits::DEFAULT }).await;
        let mut crowd = Vec::new();
        for _ in 0..8 {
            crowd.push(connect(address, GET_LARGE).await);
        }
        // It is not the one to leave because it has not sent its request yet.
        let mut scrape = connect(address, b"GET /livez HTTP/1.1\r\n").await;
        let last = connect(address, GET_LARGE).await;
        last.readable().await.unwrap();
        scrape.write_all(b"Host: x\r\n\r\n").await.unwrap();
        assert!(is_alive(std::str::from_utf8(&read(scrape).await).unwrap()));
    }

    #[tokio::test]
    async fn the_shutdown_waits_for_an_answer_and_for_no_request() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let limits = Limits { head: LONG, connection: LONG, grace: LONG, ..Limits::DEFAULT };
        let router = Router::new().route("/large", get(async || vec![b'x'; LARGE]));
        let server = tokio::spawn(serve_within(limits, listener, router, open_to_all(), shutdown));
        let unfinished = connect(address, b"GET /livez HTTP/1.1\r\nHost:").await;
        let answered = connect(address, GET_LARGE).await;
        answered.readable().await.unwrap();
        drop(stop);
        assert_eq!(read(unfinished).await, b"");
        assert!(read(answered).await.len() > LARGE);
        server.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_takes_does_not_hold_the_shutdown() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/large", get(async || vec![b'x'; LARGE]));
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            let _ = stopped.await;
        };
        let server = tokio::spawn(serve_within(Limits::DEFAULT, listener, router, open_to_all(), shutdown));
        let peer = connect(address, GET_LARGE).await;
        peer.readable().await.unwrap();
        let stopped_at = Instant::now();
        drop(stop);
        server.await.unwrap();
        assert_eq!(stopped_at.elapsed().as_secs(), 2);
    }
}
