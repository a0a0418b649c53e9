//! What can be wrong with a web-config file, each with its key, its line, its value and the remedy. Never a secret.

use std::io;
use std::path::Path;

use thiserror::Error;

/// Every problem of one load, at least one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", .0.join("\n"))]
pub struct WebConfigError(pub(super) Vec<String>);

/// A scalar of the file and its place.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// As `tls_server_config.cert_file`.
    pub key: String,
    pub line: usize,
    pub value: String,
}

/// Collects what is wrong with one file.
pub(super) struct Report<'f> {
    file: &'f Path,
    found: Vec<String>,
}

impl<'f> Report<'f> {
    pub fn of(file: &'f Path) -> Self {
        Self { file, found: Vec::new() }
    }

    pub fn file(&self) -> &Path {
        self.file
    }

    /// Something that has no line.
    pub fn add(&mut self, problem: String) {
        self.found.push(problem);
    }

    pub fn syntax(&mut self, line: usize, column: usize, why: &str) {
        self.found.push(format!("{}, line {line}, column {column}: {why}; it is not valid YAML", self.file.display()));
    }

    pub fn unknown(&mut self, key: &str, line: usize, nearest: Option<String>) {
        let remedy = match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "remove it, or see README.md for the keys there are".to_owned(),
        };
        self.found.push(format!("unknown key `{key}` ({}, line {line}); {remedy}", self.file.display()));
    }

    /// `remedy` goes on after the key and its place: `must be ...`.
    pub fn key(&mut self, key: &str, line: usize, remedy: &str) {
        self.found.push(format!("`{key}` ({}, line {line}) {remedy}", self.file.display()));
    }

    pub fn value(&mut self, text: &Text, remedy: &str) {
        let Text { key, line, value } = text;
        self.found.push(format!("`{key}` {value:?} ({}, line {line}) {remedy}", self.file.display()));
    }

    /// Like [`Self::value`], of a value that is not shown.
    pub fn secret(&mut self, text: &Text, remedy: &str) {
        self.key(&text.key, text.line, remedy);
    }

    pub fn unreadable(&mut self, text: &Text, path: &Path, error: &io::Error) {
        let remedy = format!("can't be read: {}; name a file that this user may read", reason(error));
        self.value(&Text { value: path.display().to_string(), ..text.clone() }, &remedy);
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub fn into_error(self) -> WebConfigError {
        WebConfigError(self.found)
    }
}

/// What an error says, without the number of the system's.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::Other | io::ErrorKind::InvalidInput => error.to_string(),
        kind => kind.to_string(),
    }
}
