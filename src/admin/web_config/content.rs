//! A web-config file's keys: which there are and where they stand. What their values mean is for those who use them.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};

use super::report::{Report, Text};
use super::yaml::{Kind, Node};

const SECTIONS: [&str; 4] = ["tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"];
const TLS: [&str; 13] = [
    "cert",
    "key",
    "client_ca",
    "cert_file",
    "key_file",
    "client_ca_file",
    "client_auth_type",
    "client_allowed_sans",
    "min_version",
    "max_version",
    "cipher_suites",
    "curve_preferences",
    "prefer_server_cipher_suites",
];
/// The headers that may be set, with the only values each may have, if so.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-XSS-Protection", &[]),
    ("Strict-Transport-Security", &[]),
];

/// What the file says.
#[derive(Default)]
pub(super) struct Content {
    pub tls: Option<Tls>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Names with their hashes.
    pub users: Vec<(String, Text)>,
    /// The time between two requests, and how many may come at once.
    pub rate_limit: Option<(Duration, u32)>,
}

/// `tls_server_config`, its values as they stand.
#[derive(Default)]
pub(super) struct Tls {
    pub line: usize,
    pub cert: Option<Text>,
    pub cert_file: Option<Text>,
    pub key: Option<Text>,
    pub key_file: Option<Text>,
    pub client_ca: Option<Text>,
    pub client_ca_file: Option<Text>,
    pub client_auth_type: Option<Text>,
    /// `None` where the key is absent.
    pub client_allowed_sans: Option<Vec<Text>>,
    pub min_version: Option<Text>,
    pub max_version: Option<Text>,
    pub cipher_suites: Vec<Text>,
    pub curve_preferences: Vec<Text>,
    pub prefer_server_cipher_suites: Option<bool>,
}

impl Content {
    /// Reads the document; what is wrong is reported.
    pub fn of(document: &Node, report: &mut Report<'_>) -> Self {
        let mut content = Self::default();
        if document.kind == Kind::Null {
            let file = report.file().display();
            let empty =
                format!("{file} is empty; give it tls_server_config or basic_auth_users, or unset admin.web_config");
            report.add(empty);
            return content;
        }
        for Field { name, key, node } in fields(document, "", Some(&SECTIONS), report) {
            match name.as_str() {
                "tls_server_config" => content.tls = Tls::of(&node, &key, report),
                "http_server_config" => content.headers = http(&node, &key, report),
                "basic_auth_users" => content.users = users(&node, &key, report),
                _ => content.rate_limit = rate_limit(&node, &key, report),
            }
        }
        content
    }
}

impl Tls {
    /// `None` where nothing in it asks for TLS, as the exporters have it.
    fn of(section: &Node, key: &str, report: &mut Report<'_>) -> Option<Self> {
        let mut tls = Self { line: section.line, ..Self::default() };
        for field in fields(section, key, Some(&TLS), report) {
            match field.name.as_str() {
                "cert" => tls.cert = field.text(report),
                "key" => tls.key = field.text(report),
                "client_ca" => tls.client_ca = field.text(report),
                "cert_file" => tls.cert_file = field.text(report),
                "key_file" => tls.key_file = field.text(report),
                "client_ca_file" => tls.client_ca_file = field.text(report),
                "client_auth_type" => tls.client_auth_type = field.text(report),
                "client_allowed_sans" => tls.client_allowed_sans = Some(field.texts(report)),
                "min_version" => tls.min_version = field.text(report),
                "max_version" => tls.max_version = field.text(report),
                "cipher_suites" => tls.cipher_suites = field.texts(report),
                "curve_preferences" => tls.curve_preferences = field.texts(report),
                _ => tls.prefer_server_cipher_suites = field.boolean(report),
            }
        }
        let [certificate, others] = [
            [
                &tls.cert,
                &tls.cert_file,
                &tls.key,
                &tls.key_file,
                &tls.client_ca,
                &tls.client_ca_file,
                &tls.client_auth_type,
            ]
            .iter()
            .any(|text| text.is_some()),
            tls.min_version.is_some()
                || tls.max_version.is_some()
                || tls.client_allowed_sans.is_some()
                || !tls.cipher_suites.is_empty()
                || !tls.curve_preferences.is_empty(),
        ];
        if others && !certificate {
            report.key(key, section.line, "has no certificate; give it cert_file and key_file, or remove it");
        }
        certificate.then_some(tls)
    }
}

fn http(section: &Node, key: &str, report: &mut Report<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for field in fields(section, key, Some(&["http2", "headers"]), report) {
        if field.name == "headers" {
            headers = fields(&field.node, &field.key, Some(&HEADERS.map(|(name, _)| name)), report)
                .into_iter()
                .filter_map(|field| header(&field.text(report)?, &field.name, report))
                .collect();
        } else {
            // The exporters' default is true, for whoever speaks it: a client of this server is offered HTTP/1.1.
            field.boolean(report);
        }
    }
    headers
}

fn header(text: &Text, name: &str, report: &mut Report<'_>) -> Option<(HeaderName, HeaderValue)> {
    let values = HEADERS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, values)| values);
    if !values.is_empty() && !values.contains(&text.value.as_str()) {
        report.value(text, &format!("must be {}", quoted(values)));
        return None;
    }
    let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(&text.value).ok());
    if parsed.is_none() {
        report.value(text, "must be a header's value: one line of printable ASCII");
    }
    parsed
}

fn users(section: &Node, key: &str, report: &mut Report<'_>) -> Vec<(String, Text)> {
    let mut users = Vec::new();
    for field in fields(section, key, None, report) {
        if field.name.contains(':') {
            report.key(&field.key, field.node.line, "must be a user without a colon: a request can't name one with it");
        } else if let Some(hash) = field.text(report) {
            users.push((field.name, hash));
        } else if field.node.kind == Kind::Null {
            report.key(&field.key, field.node.line, "must be a bcrypt hash, as `htpasswd -nBC 10 NAME` makes it");
        }
    }
    users
}

fn rate_limit(section: &Node, key: &str, report: &mut Report<'_>) -> Option<(Duration, u32)> {
    let (mut interval, mut burst) = (Duration::ZERO, 0);
    for field in fields(section, key, Some(&["interval", "burst"]), report) {
        let Some(text) = field.text(report) else { continue };
        if field.name == "interval" {
            let parsed = if text.value == "0" { Ok(Duration::ZERO) } else { humantime::parse_duration(&text.value) };
            match parsed {
                Ok(parsed) => interval = parsed,
                Err(_) => report.value(&text, r#"must be a duration such as "1s" or "500ms""#),
            }
        } else {
            match text.value.parse() {
                Ok(parsed) => burst = parsed,
                Err(_) => report.value(&text, "must be a whole number of requests"),
            }
        }
    }
    if !interval.is_zero() && burst == 0 && report.is_empty() {
        report.key(key, section.line, "has no burst, which refuses every request; give it `burst: 1` or more");
    }
    (!interval.is_zero()).then_some((interval, burst))
}

/// A key of a section with its value.
struct Field {
    name: String,
    key: String,
    node: Node,
}

impl Field {
    fn text(&self, report: &mut Report<'_>) -> Option<Text> {
        match &self.node.kind {
            // As the exporters have it: an empty value is none.
            Kind::Null => None,
            Kind::Text(text) if text.is_empty() => None,
            Kind::Text(text) => Some(Text { key: self.key.clone(), line: self.node.line, value: text.clone() }),
            Kind::List(_) | Kind::Section(_) => {
                report.key(&self.key, self.node.line, "must be one value, not a list or a section");
                None
            }
        }
    }

    fn texts(&self, report: &mut Report<'_>) -> Vec<Text> {
        let Kind::List(elements) = &self.node.kind else {
            if self.node.kind != Kind::Null {
                report.key(&self.key, self.node.line, "must be a list: one value a line, each with `- ` before it");
            }
            return Vec::new();
        };
        let element = |node: &Node| Self { name: self.name.clone(), key: self.key.clone(), node: node.clone() };
        elements.iter().filter_map(|node| element(node).text(report)).collect()
    }

    fn boolean(&self, report: &mut Report<'_>) -> Option<bool> {
        let text = self.text(report)?;
        match text.value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => {
                report.value(&text, "must be true or false");
                None
            }
        }
    }
}

/// The section's fields. Those not among the known ones are reported and left out.
fn fields(section: &Node, key: &str, known: Option<&[&str]>, report: &mut Report<'_>) -> Vec<Field> {
    let of_section = |name: &str| -> String { if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") } };
    let entries = match &section.kind {
        Kind::Section(entries) => entries,
        Kind::Null => return Vec::new(),
        Kind::Text(_) | Kind::List(_) => {
            let key = if key.is_empty() { "the file" } else { key };
            report.key(key, section.line, "must be a section: `name: value` lines, indented below it");
            return Vec::new();
        }
    };
    let mut found: Vec<Field> = Vec::new();
    for (name, node) in entries {
        let (Kind::Text(text), line) = (&name.kind, name.line) else {
            report.key(key, name.line, "has a key that is no name");
            continue;
        };
        if known.is_some_and(|known| !known.contains(&text.as_str())) {
            report.unknown(&of_section(text), line, nearest(text, known).map(of_section));
        } else if found.iter().any(|field| field.name == *text) {
            report.key(&of_section(text), line, "is given twice; give it once");
        } else {
            // A value has its own line, a section that of its name.
            let line = if matches!(node.kind, Kind::Text(_)) { node.line } else { line };
            found.push(Field { name: text.clone(), key: of_section(text), node: Node { line, ..node.clone() } });
        }
    }
    found
}

/// The known name at the least edit distance, if that is near enough to be a slip.
fn nearest<'k>(name: &str, known: Option<&[&'k str]>) -> Option<&'k str> {
    known?
        .iter()
        .map(|known| (strsim::damerau_levenshtein(&name.to_ascii_lowercase(), &known.to_ascii_lowercase()), *known))
        .filter(|(distance, _)| *distance <= (name.len() / 4).max(2))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// `"a", "b" or "c"`.
pub(super) fn quoted(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}
