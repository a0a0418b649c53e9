//! The server's life: from the listener to the shutdown.

use std::future::Future;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::routes::{self, State};

/// How long requests in progress may take once the shutdown began. A peer that never finishes its request must not
/// hold the process.
const GRACE: Duration = Duration::from_secs(2);

/// Serves until `shutdown` resolves, then finishes the requests in progress, for 2 seconds at most.
pub async fn serve(listener: TcpListener, state: State, shutdown: impl Future<Output = ()> + Send + 'static) {
    serve_with_grace(listener, state, shutdown, GRACE).await;
}

async fn serve_with_grace(
    listener: TcpListener,
    state: State,
    shutdown: impl Future<Output = ()> + Send + 'static,
    grace: Duration,
) {
    let (begin, began) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes::router(state)).with_graceful_shutdown(async move {
        shutdown.await;
        drop(begin);
    });
    let out_of_grace = async {
        // Resolves with an error, once the sender is dropped: the shutdown began.
        let _ = began.await;
        tokio::time::sleep(grace).await;
    };
    tokio::select! {
        biased;
        ended = server => if let Err(error) = ended {
            error!(%error, "admin server ended");
        },
        () = out_of_grace => warn!("admin server ended before its last request did"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{bind, routes};
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_request_over_a_socket_is_answered_and_the_shutdown_ends_the_server() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(serve(listener, routes::tests::state(), async move {
            let _ = stopped.await;
        }));
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nalive\n"), "{answer}");
        drop(stop);
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_that_never_finishes_its_request_does_not_hold_the_shutdown() {
        let listener = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        let server = tokio::spawn(serve_with_grace(listener, routes::tests::state(), shutdown, Duration::ZERO));
        let mut unfinished = TcpStream::connect(address).await.unwrap();
        unfinished.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
        // Connections are taken in order: once a later one has its answer, the first was taken.
        let mut later = TcpStream::connect(address).await.unwrap();
        later.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        later.read_to_end(&mut Vec::new()).await.unwrap();
        drop(stop);
        server.await.unwrap();
    }
}
