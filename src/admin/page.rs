//! The status page: its files are part of the program, and it asks for nothing but `/status`.

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::routing::get;

/// What the page may do: run its own scripts and styles, and ask its own server. What it shows of sessions was
/// written by strangers.
const PAGE: [(HeaderName, HeaderValue); 3] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
        ),
    ),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Path, content type and content of what the page consists of.
const FILES: [(&str, &str, &str); 15] = [
    ("/page/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/page/page.js", SCRIPT, include_str!("page/page.js")),
    ("/page/verdict.js", SCRIPT, include_str!("page/verdict.js")),
    ("/page/counts.js", SCRIPT, include_str!("page/counts.js")),
    ("/page/cards.js", SCRIPT, include_str!("page/cards.js")),
    ("/page/traffic.js", SCRIPT, include_str!("page/traffic.js")),
    ("/page/overtime.js", SCRIPT, include_str!("page/overtime.js")),
    ("/page/shape.js", SCRIPT, include_str!("page/shape.js")),
    ("/page/axes.js", SCRIPT, include_str!("page/axes.js")),
    ("/page/scale.js", SCRIPT, include_str!("page/scale.js")),
    ("/page/sessions.js", SCRIPT, include_str!("page/sessions.js")),
    ("/page/timeline.js", SCRIPT, include_str!("page/timeline.js")),
    ("/page/lanes.js", SCRIPT, include_str!("page/lanes.js")),
    ("/page/format.js", SCRIPT, include_str!("page/format.js")),
    ("/page/dom.js", SCRIPT, include_str!("page/dom.js")),
];

pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let page = Router::new().route("/", get(async || (PAGE, include_str!("page/index.html"))));
    FILES.into_iter().fold(page, |page, (path, content_type, content)| {
        page.route(path, get(async move || ([(header::CONTENT_TYPE, content_type)], content)))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin/page");
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in names.filter(|name| name != "index.html") {
            let path = format!("/page/{name}");
            assert!(FILES.iter().any(|(served, ..)| *served == path), "{path} is not served");
        }
    }
}
