//! Who is answered where the web config has users.

use rustls::ALL_VERSIONS;
use tokio::time::timeout;

use super::*;

const PATHS: [&str; 9] =
    ["/", "/page/page.js", "/metrics", "/livez", "/readyz", "/version", "/report", "/status", "/nowhere"];

async fn plain(address: SocketAddr, path: &str, headers: &str) -> String {
    get(TcpStream::connect(address).await.unwrap(), path, headers).await.unwrap()
}

#[tokio::test]
async fn only_the_right_login_is_answered() {
    let folder = Folder::new();
    folder.replace("web.yml", &users(&[("ann", "ann's"), ("bob", "bob:s ü")]));
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let right = basic("ann", "ann's");
    for (headers, answered) in [
        (String::new(), false),
        ("Authorization: Basic !!!!\r\n".into(), false),
        ("Authorization: Basic\r\n".into(), false),
        ("Authorization: Bearer YW5uOmFubidz\r\n".into(), false),
        (basic("eve", "ann's"), false),
        (basic("ann", "wrong"), false),
        (basic("ann", ""), false),
        (right.clone(), true),
        (right.clone(), true),
        (right.replace("Basic", "basic"), true),
        (basic("ann", "wrong"), false),
        (basic("bob", "bob:s ü"), true),
    ] {
        let answer = plain(address, "/livez", &headers).await;
        if answered {
            assert!(is_alive(&answer), "{headers}: {answer}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{headers}: {answer}");
            assert!(answer.contains("\r\nwww-authenticate: Basic realm=\"duplex-collector\""), "{headers}: {answer}");
            assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{headers}: {answer}");
            assert!(answer.contains("\r\ncache-control: no-store\r\n"), "{headers}: {answer}");
        }
    }
}

#[tokio::test]
async fn every_path_wants_a_login_with_tls_and_without() {
    let folder = Folder::new();
    for tls in [false, true] {
        let users = users(&[("ann", "ann's")]);
        if tls {
            folder.with_tls(&users)
        } else {
            folder.replace("web.yml", &users)
        }
        let (address, _) = folder.serving(Limits::DEFAULT).await;
        let client = folder.client(None, ALL_VERSIONS);
        for path in PATHS {
            for (headers, is_401) in [(String::new(), true), (basic("ann", "ann's"), false)] {
                let answer = if tls {
                    get(handshake(address, &client).await.unwrap(), path, &headers).await.unwrap()
                } else {
                    plain(address, path, &headers).await
                };
                assert_eq!(answer.starts_with("HTTP/1.1 401 "), is_401, "{path} {headers}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn without_users_nobody_needs_a_login() {
    let folder = Folder::new();
    folder.with_tls("");
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    assert!(is_alive(&ask(address, &folder.client(None, ALL_VERSIONS)).await.unwrap()));
}

#[tokio::test]
async fn a_crowd_that_guesses_keeps_nobody_out_who_was_let_in_before() {
    let folder = Folder::new();
    folder.replace("web.yml", &users(&[("ann", "ann's")]));
    let limits = Limits { connections: 4, head: LONG, connection: LONG, ..Limits::DEFAULT };
    let (address, web_config) = folder.serving(limits).await;
    assert!(is_alive(&plain(address, "/livez", &basic("ann", "ann's")).await));
    // No guess is ever checked to its end.
    let _checking = web_config.hold_checks().await;
    let mut crowd = Vec::new();
    for n in 0..40 {
        let mut guess = TcpStream::connect(address).await.unwrap();
        let head = format!("GET /livez HTTP/1.1\r\nHost: x\r\n{}\r\n", basic("ann", &n.to_string()));
        guess.write_all(head.as_bytes()).await.unwrap();
        crowd.push(guess);
        if n % 10 == 0 {
            let answer = timeout(Duration::from_secs(5), plain(address, "/livez", &basic("ann", "ann's"))).await;
            assert!(is_alive(&answer.unwrap_or_default()), "after {n} guesses");
        }
    }
}

#[tokio::test]
async fn headers_are_set_where_an_answer_has_none_of_its_own() {
    let folder = Folder::new();
    let headers = "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: deny\n    \
                   Strict-Transport-Security: max-age=31536000\n    Content-Security-Policy: default-src *\n    \
                   X-XSS-Protection: \"\"\n";
    folder.replace("web.yml", headers);
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    for path in PATHS {
        let answer = plain(address, path, "").await;
        assert!(answer.contains("\r\nx-frame-options: deny\r\n"), "{path}: {answer}");
        assert!(answer.contains("\r\nstrict-transport-security: max-age=31536000\r\n"), "{path}: {answer}");
        assert!(!answer.contains("\r\nx-xss-protection"), "{path}: {answer}");
        let policy = if path == "/" { "default-src 'none'; script-src 'self'; " } else { "default-src *\r\n" };
        assert_eq!(answer.matches("content-security-policy").count(), 1, "{path}: {answer}");
        assert!(answer.contains(&format!("\r\ncontent-security-policy: {policy}")), "{path}: {answer}");
    }
}

#[tokio::test]
async fn requests_past_the_rate_limit_are_refused_before_their_login_is_checked() {
    let folder = Folder::new();
    folder.replace("web.yml", &format!("rate_limit:\n  interval: 1h\n  burst: 2\n{}", users(&[("ann", "ann's")])));
    let (address, _) = folder.serving(Limits::DEFAULT).await;
    let mut statuses = Vec::new();
    for headers in [String::new(), basic("ann", "ann's"), basic("ann", "ann's"), String::new()] {
        statuses.push(plain(address, "/livez", &headers).await[9..12].to_owned());
    }
    assert_eq!(statuses, ["401", "200", "429", "429"]);
}
