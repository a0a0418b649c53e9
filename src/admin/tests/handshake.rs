//! Versions, suites and curves; peers that do not finish the handshake or do not speak TLS.

use rustls::ALL_VERSIONS;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup};
use tokio::time::Instant;

use super::*;

#[tokio::test]
async fn only_the_versions_between_the_two_are_spoken() {
    let folder = Folder::new();
    for (config, [of_12, of_13]) in [
        ("", [true, true]),
        ("  min_version: TLS12\n  max_version: TLS13\n", [true, true]),
        ("  min_version: TLS13\n", [false, true]),
        ("  max_version: TLS12\n", [true, false]),
    ] {
        folder.with_tls(config);
        let (address, _) = folder.serving(Limits::DEFAULT).await;
        for (version, spoken) in [(&TLS12, of_12), (&TLS13, of_13)] {
            let answer = ask(address, &folder.client(None, &[version])).await;
            match answer {
                Ok(answer) => assert!(spoken && is_alive(&answer), "{config} {version:?}: {answer}"),
                Err(error) => {
                    assert!(!spoken && error.to_string().contains("ProtocolVersion"), "{config} {version:?}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_named_suites_are_taken_in_their_order_and_only_the_named_curves() {
    let folder = Folder::new();
    let chacha = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let aes = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let suites = [
        (format!("[{chacha}]"), "", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
        (format!("[{aes}, {chacha}]"), "", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        (format!("[{chacha}, {aes}]"), "", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
        // The client's own first choice is AES-256, its second AES-128.
        (
            format!("[{chacha}, {aes}]"),
            "  prefer_server_cipher_suites: false\n",
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
    ];
    for (list, more, expected) in suites {
        folder.with_tls(&format!("  cipher_suites: {list}\n  curve_preferences: [CurveP384]\n{more}"));
        let (address, _) = folder.serving(Limits::DEFAULT).await;
        let stream = handshake(address, &folder.client(None, &[&TLS12])).await.unwrap();
        let connection = stream.get_ref().1;
        assert_eq!(connection.negotiated_cipher_suite().map(|suite| suite.suite()), Some(expected), "{list} {more}");
        let group = connection.negotiated_key_exchange_group().map(|group| group.name());
        assert_eq!(group, Some(NamedGroup::secp384r1), "{list} {more}");
        // TLS 1.3's suites can't be chosen.
        assert!(is_alive(&ask(address, &folder.client(None, &[&TLS13])).await.unwrap()));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_handshake_is_closed_on_after_5_s() {
    let folder = Folder::new();
    folder.with_tls("");
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let in_tls = |bytes: &[u8]| [&[22, 3, 1], bytes].concat();
    for sends in [vec![], vec![22], in_tls(&[2, 0]), in_tls(&[0, 200, 1, 0, 0, 196, 3, 3])] {
        let connected = Instant::now();
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(&sends).await.unwrap();
        let mut answer = Vec::new();
        let _ = peer.read_to_end(&mut answer).await;
        assert_eq!((answer, connected.elapsed().as_secs()), (vec![], 5), "{sends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_and_the_head_have_5_s_together() {
    let folder = Folder::new();
    folder.with_tls("");
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let connected = Instant::now();
    let stream = TcpStream::connect(address).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let name = ServerName::IpAddress(address.ip().into());
    let mut stream = folder.client(None, ALL_VERSIONS).connect(name, stream).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost:").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!((answer, connected.elapsed().as_secs()), (vec![], 5));
}

#[tokio::test]
async fn plain_http_is_told_that_tls_is_spoken() {
    let folder = Folder::new();
    folder.with_tls("");
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let answer = get(TcpStream::connect(address).await.unwrap(), "/metrics", "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"), "{answer}");
}

#[tokio::test]
async fn tls_where_plain_http_is_spoken_is_an_error_and_no_hang() {
    let folder = Folder::new();
    let address = serving(Limits::DEFAULT, None).await;
    let error = ask(address, &folder.client(None, ALL_VERSIONS)).await.unwrap_err();
    assert!(error.to_string().contains("InvalidContentType"), "{error}");
}
