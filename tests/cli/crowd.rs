//! A crowd that opens up to 10,000 connections at once and wants no answer: scrapes come through all the while.
//!
//! As many as this process may have descriptors for; `--nocapture` shows how many, and how long the slowest scrape took.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use crate::secure::{Folder, PASSWORD, Service, USER, users};

const CROWD: usize = 10_000;
/// How long one of the crowd stays away once the server closed on it: 2,000 come a second.
const AWAY: Duration = Duration::from_secs(5);
const WATCHED: Duration = Duration::from_secs(10);
/// Prometheus' own default.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);

/// What each of the crowd does once it is connected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Silent,
    /// A byte of its head each second.
    Slow,
    /// A head of many times what one may have.
    Huge,
    /// A handshake that is not finished.
    Handshake,
    /// A wrong password, again and again another.
    Guess,
}

/// How many connections the crowd may have: those that the descriptors of this process suffice for.
fn size() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let most = line.and_then(|line| line.split_whitespace().nth(3)).and_then(|soft| soft.parse().ok());
    CROWD.min(most.unwrap_or(1024) - 200)
}

/// One of the crowd: does what it does, and comes back some time after it was closed on. Until then it keeps its end open.
async fn one(address: SocketAddr, host: u8, kind: Kind, n: usize, met: Arc<AtomicUsize>) {
    sleep(AWAY.mul_f64(n as f64 / CROWD as f64)).await;
    for again in 0.. {
        let mut stream = connect(address, host).await;
        if let Ok(stream) = &mut stream {
            met.fetch_add(1, Ordering::Relaxed);
            // Closed on, it has nothing more to do.
            let _ = act(stream, kind, n + again * CROWD).await;
        }
        sleep(AWAY).await;
    }
}

async fn connect(address: SocketAddr, host: u8) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, host], 0).into())?;
    socket.connect(address).await
}

async fn act(stream: &mut TcpStream, kind: Kind, n: usize) -> io::Result<()> {
    match kind {
        Kind::Silent => {}
        Kind::Slow => {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await?;
            loop {
                sleep(Duration::from_secs(1)).await;
                stream.write_all(b"x").await?;
            }
        }
        Kind::Huge => {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ").await?;
            for _ in 0..64 {
                stream.write_all(&[b'x'; 4096]).await?;
            }
        }
        Kind::Handshake => stream.write_all(&[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]).await?,
        Kind::Guess => {
            let guess = BASE64_STANDARD.encode(format!("{USER}:{n}"));
            let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {guess}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
        }
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(())
}

async fn scrape(address: SocketAddr, tls: Option<&TlsConnector>, authorization: &str) -> io::Result<()> {
    async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, authorization: &str) -> io::Result<()> {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{authorization}\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let whole = answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\nduplex_records_total 0\n");
        if whole { Ok(()) } else { Err(io::Error::other(answer)) }
    }
    let stream = TcpStream::connect(address).await?;
    match tls {
        Some(tls) => get(tls.connect(ServerName::IpAddress(address.ip().into()), stream).await?, authorization).await,
        None => get(stream, authorization).await,
    }
}

/// Scrapes, from 127.0.0.1, while a crowd of these kinds comes from 127.0.0.`host`; prints and checks what came of it.
fn watch(what: &str, service: &Service, host: u8, kinds: &[Kind], tls: Option<&TlsConnector>, authorization: &str) {
    let (address, size, met) = (service.address, size(), Arc::new(AtomicUsize::new(0)));
    let crowd = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    for n in 0..size {
        crowd.spawn(one(address, host, kinds[n % kinds.len()], n, Arc::clone(&met)));
    }
    // Of its own, so that the crowd's work here delays no scrape.
    let scraper = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (times, failures) = scraper.block_on(async {
        let (began, mut times, mut failures) = (Instant::now(), Vec::new(), Vec::new());
        while began.elapsed() < WATCHED {
            let asked = Instant::now();
            match timeout(SCRAPE_TIMEOUT, scrape(address, tls, authorization)).await {
                Ok(Ok(())) => times.push(asked.elapsed()),
                Ok(Err(error)) => failures.push(error.to_string()),
                Err(_) => failures.push("timed out".to_owned()),
            }
            sleep(Duration::from_millis(50)).await;
        }
        (times, failures)
    });
    crowd.shutdown_background();
    let slowest = times.iter().max().copied().unwrap_or_default();
    println!(
        "{what}: crowd of {size}, {} connections made; {} scrapes, {} failed, slowest {} ms",
        met.load(Ordering::Relaxed),
        times.len() + failures.len(),
        failures.len(),
        slowest.as_millis()
    );
    assert!(met.load(Ordering::Relaxed) >= size, "the crowd was there");
    // Of the crowd's own address a scrape is as good as they are: it may be the oldest before its request is read.
    let few = if host == 1 { times.len() / 10 } else { 0 };
    assert!(!times.is_empty() && failures.len() <= few, "{what}: {failures:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn scrapes_come_through_a_crowd_of_ten_thousand() {
    let service = Service::start(None);
    let kinds = [Kind::Silent, Kind::Slow, Kind::Huge];
    watch("plain, crowd of the same address", &service, 1, &kinds, None, "");
    watch("plain, crowd of another address", &service, 2, &kinds, None, "");

    let folder = Folder::new();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.path("ca.crt")).expect("PEM")).expect("a CA");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let client = builder.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let tls = TlsConnector::from(Arc::new(client.with_no_client_auth()));
    let authorization = format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));

    let service = Service::start(Some(folder.with_tls(&users(10))));
    let kinds = [Kind::Silent, Kind::Handshake, Kind::Slow];
    watch("TLS and a login", &service, 2, &kinds, Some(&tls), &authorization);

    let service = Service::start(Some(folder.write("web.yml", &users(10))));
    let kinds = [Kind::Silent, Kind::Slow, Kind::Guess];
    watch("a login, guesses", &service, 2, &kinds, None, &authorization);
}
