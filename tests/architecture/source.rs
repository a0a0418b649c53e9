//! What a Rust source names: its paths, modules and macros, each with its line and whether it is test code.
//! A small lexer, so that comments and string literals name nothing. Knows no rule.

use std::collections::{BTreeMap, BTreeSet};

/// What one source file names.
#[derive(Debug, Default)]
pub struct Source {
    /// Every path, `use` groups spread out. One that reaches the crate's root starts with `crate`.
    pub paths: Vec<Named<Vec<String>>>,
    /// Names on their own: keywords, macros (`todo!`), and methods (`.unwrap`).
    pub words: Vec<Named<String>>,
    /// The `mod name;` declarations, as the module's path from the crate's root.
    pub modules: Vec<Named<Vec<String>>>,
}

#[derive(Clone, Debug)]
pub struct Named<T> {
    pub name: T,
    pub line: usize,
    pub in_test: bool,
}

/// The module that a file is: `src/a/b.rs` and `src/a/b/mod.rs` are `a::b`; `src/lib.rs` and `src/main.rs` the root.
pub fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Vec<String> = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || ["lib", "main"].contains(&path) {
        module.pop();
    }
    module
}

/// The files that no `mod` names, and those that only test code names.
pub fn reach(sources: &BTreeMap<String, Source>) -> (Vec<&str>, BTreeSet<&str>) {
    let mut declared: BTreeMap<&[String], bool> = BTreeMap::new();
    for module in sources.values().flat_map(|source| &source.modules) {
        *declared.entry(&module.name).or_insert(true) &= module.in_test;
    }
    let (mut orphans, mut tests) = (Vec::new(), BTreeSet::new());
    for file in sources.keys() {
        let module = module_of(file);
        // An ancestor's declaration counts too: an orphan's children are orphans, a test's are tests.
        let ancestors: Option<Vec<bool>> = (1..=module.len()).map(|n| declared.get(&module[..n]).copied()).collect();
        match ancestors {
            None => orphans.push(file.as_str()),
            Some(in_test) if in_test.contains(&true) => {
                tests.insert(file.as_str());
            }
            Some(_) => {}
        }
    }
    (orphans, tests)
}

/// Reads the source of `file`.
pub fn read(file: &str, text: &str) -> Source {
    let tokens = tokens(text);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        depth: 0,
        module: module_of(file),
        inner: vec![],
        test: None,
        out: <_>::default(),
    };
    reader.run();
    reader.out
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Mark(char),
    /// A string, character or number.
    Literal,
}
use Token::{Colons, Literal, Mark, Word};

fn tokens(text: &str) -> Vec<(Token, usize)> {
    let chars: Vec<char> = text.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    let peek = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while at < chars.len() {
        let (from, c) = (at, chars[at]);
        let token = match c {
            _ if c.is_whitespace() => {
                at += 1;
                None
            }
            '/' if peek(at + 1) == '/' => {
                while at < chars.len() && chars[at] != '\n' {
                    at += 1;
                }
                None
            }
            '/' if peek(at + 1) == '*' => {
                let mut nested = 0;
                loop {
                    match (peek(at), peek(at + 1)) {
                        ('/', '*') => (nested, at) = (nested + 1, at + 2),
                        ('*', '/') => (nested, at) = (nested - 1, at + 2),
                        _ => at += 1,
                    }
                    if nested == 0 || at >= chars.len() {
                        break None;
                    }
                }
            }
            '"' => {
                at = after_quoted(&chars, at);
                Some(Literal)
            }
            // A character, not a lifetime: closed after one character or after an escape.
            '\'' if peek(at + 1) == '\\' || peek(at + 2) == '\'' => {
                at = after_quoted(&chars, at);
                Some(Literal)
            }
            '\'' => {
                at += 1;
                while is_word(peek(at)) {
                    at += 1;
                }
                None // a lifetime
            }
            _ if c.is_ascii_digit() => {
                while is_word(peek(at)) || (peek(at) == '.' && peek(at + 1).is_ascii_digit()) {
                    at += 1;
                }
                Some(Literal)
            }
            _ if is_word(c) => {
                while is_word(peek(at)) {
                    at += 1;
                }
                let word: String = chars[from..at].iter().collect();
                let hashes = (at..).take_while(|&i| peek(i) == '#').count();
                match (word.as_str(), peek(at + hashes)) {
                    ("r" | "br" | "cr", '"') => {
                        at += hashes + 1;
                        let closed = |at: usize| peek(at) == '"' && (1..=hashes).all(|n| peek(at + n) == '#');
                        while at < chars.len() && !closed(at) {
                            at += 1;
                        }
                        at += hashes + 1;
                        Some(Literal)
                    }
                    ("r", _) if hashes == 1 => {
                        at += 1; // a raw identifier: the name follows
                        None
                    }
                    ("b" | "c", '"' | '\'') if hashes == 0 => {
                        at = after_quoted(&chars, at);
                        Some(Literal)
                    }
                    _ => Some(Word(word)),
                }
            }
            ':' if peek(at + 1) == ':' => {
                at += 2;
                Some(Colons)
            }
            _ => {
                at += 1;
                Some(Mark(c))
            }
        };
        found.extend(token.map(|token| (token, line)));
        line += chars[from..at.min(chars.len())].iter().filter(|&&c| c == '\n').count();
    }
    found
}

/// Where the literal ends whose quote stands at `open`.
fn after_quoted(chars: &[char], open: usize) -> usize {
    let mut at = open + 1;
    while at < chars.len() && chars[at] != chars[open] {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

struct Reader<'a> {
    tokens: &'a [(Token, usize)],
    at: usize,
    /// Open braces, brackets and parentheses.
    depth: usize,
    module: Vec<String>,
    /// The inline modules that are open, each with the depth outside its braces.
    inner: Vec<(String, usize)>,
    /// The depth at which the item under `#[cfg(test)]` stands, while it lasts.
    test: Option<usize>,
    out: Source,
}

impl Reader<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|(token, _)| token)
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.token(at) {
            Some(Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is(&self, at: usize, mark: char) -> bool {
        self.token(at) == Some(&Mark(mark))
    }

    fn named<T>(&self, at: usize, name: T) -> Named<T> {
        let line = self.tokens.get(at).map_or(1, |&(_, line)| line);
        Named { name, line, in_test: self.test.is_some() }
    }

    fn run(&mut self) {
        while self.at < self.tokens.len() {
            match &self.tokens[self.at].0 {
                Mark('{' | '[' | '(') => self.depth += 1,
                Mark(close @ ('}' | ']' | ')')) => {
                    self.depth = self.depth.saturating_sub(1);
                    if *close == '}' {
                        self.inner.pop_if(|(_, depth)| *depth == self.depth);
                        self.test.take_if(|depth| *depth >= self.depth);
                    }
                }
                Mark(';') => {
                    self.test.take_if(|depth| *depth == self.depth);
                }
                Mark('#') if self.opens_test() => {
                    self.test.get_or_insert(self.depth);
                }
                Word(word) if word == "extern" && self.word(self.at + 1) == Some("crate") => {
                    let name = self.word(self.at + 2).unwrap_or_default().to_owned();
                    self.push_path(self.at + 2, vec![name]);
                }
                Word(word) if word == "use" && !self.is(self.at + 1, '<') => {
                    self.at += 1;
                    self.import(&[]);
                    continue;
                }
                Word(word) if word == "mod" => self.module(),
                Word(_) | Colons => {
                    self.path();
                    continue;
                }
                Mark(_) | Literal => {}
            }
            self.at += 1;
        }
    }

    /// Whether `#[cfg(test)]`, `#[cfg(all(test, ..))]` or `#[test]` stands here.
    fn opens_test(&self) -> bool {
        let words: Vec<&str> =
            (self.at + 2..).map_while(|at| (!self.is(at, ']')).then(|| self.word(at).unwrap_or(""))).take(9).collect();
        self.is(self.at + 1, '[')
            && words.contains(&"test")
            && !words.contains(&"not")
            && ["cfg", "test"].contains(&words[0])
    }

    fn module(&mut self) {
        let Some(name) = self.word(self.at + 1).map(str::to_owned) else { return };
        if self.is(self.at + 2, ';') {
            let mut path = self.here();
            path.push(name);
            let module = self.named(self.at, path);
            self.out.modules.push(module);
        } else if self.is(self.at + 2, '{') {
            self.inner.push((name, self.depth));
        }
        self.at += 1;
    }

    fn here(&self) -> Vec<String> {
        self.module.iter().chain(self.inner.iter().map(|(name, _)| name)).cloned().collect()
    }

    /// A path outside `use`.
    fn path(&mut self) {
        // `<T as Trait>::name` and `name::<T>::more` go on after a `>`: no crate is named there.
        let start = self.at;
        let before = |n: usize| start.checked_sub(n).and_then(|at| self.token(at));
        let goes_on = match before(1) {
            Some(Mark('.')) => true,
            Some(Mark('>')) => self.token(start) == Some(&Colons) && !matches!(before(2), Some(Mark('-' | '='))),
            _ => false,
        };
        let mut name = Vec::new();
        if self.token(self.at) == Some(&Colons) {
            self.at += 1;
        }
        while let Some(word) = self.word(self.at) {
            name.push(word.to_owned());
            self.at += 1;
            if self.token(self.at) != Some(&Colons) || self.word(self.at + 1).is_none() {
                break;
            }
            self.at += 1;
        }
        let end = self.at;
        if let Some(last) = name.last() {
            let bang = if self.is(end, '!') && !self.is(end + 1, '=') { "!" } else { "" };
            let word = self.named(start, format!("{last}{bang}"));
            self.out.words.push(word);
        }
        if goes_on {
            name.insert(0, String::new());
        }
        if name.len() > 1 {
            self.push_path(start, name);
        }
        self.at = end.max(start + 1);
    }

    /// One tree of a `use`, after `prefix`.
    fn import(&mut self, prefix: &[String]) {
        let mut name = prefix.to_vec();
        loop {
            match self.token(self.at) {
                Some(Word(word)) if word == "as" => {
                    let renamed = self.word(self.at + 1).unwrap_or("_").to_owned();
                    self.push_path(self.at - 1, name.clone());
                    if renamed != "_" {
                        let word = self.named(self.at, format!("{} as", name.last().map_or("", String::as_str)));
                        self.out.words.push(word);
                    }
                    self.at += 2;
                    return;
                }
                Some(Word(word)) if word == "self" && !name.is_empty() => self.at += 1, // the prefix itself
                Some(Word(word)) => {
                    name.push(word.clone());
                    self.at += 1;
                }
                Some(Mark('*')) => {
                    name.push("*".to_owned());
                    self.at += 1;
                }
                Some(Mark('{')) => {
                    self.at += 1;
                    while !self.is(self.at, '}') && self.at < self.tokens.len() {
                        let from = self.at;
                        self.import(&name);
                        self.at += usize::from(self.is(self.at, ',') || self.at == from);
                    }
                    self.at += 1;
                    return;
                }
                Some(Colons) => self.at += 1,
                _ => break,
            }
        }
        if name.is_empty() {
            self.at += 1; // not a tree: go on behind it
        } else {
            self.push_path(self.at - 1, name);
        }
    }

    /// Notes a path; `self` and `super` are resolved, so what leaves the module starts with `crate`.
    fn push_path(&mut self, at: usize, mut name: Vec<String>) {
        let supers = name.iter().skip_while(|word| *word == "self").take_while(|word| *word == "super").count();
        let selfs = name.iter().take_while(|word| *word == "self").count();
        if supers + selfs > 0 {
            let here = self.here();
            let kept = &here[..here.len().saturating_sub(supers)];
            let mut resolved = vec!["crate".to_owned()];
            resolved.extend(kept.iter().cloned().chain(name.drain(supers + selfs..)));
            name = resolved;
        }
        let path = self.named(at, name);
        self.out.paths.push(path);
    }
}
