//! YAML as far as a web-config file needs it: a small tree whose every node knows its line.
//!
//! Scalars stay the text they are, whatever type YAML would guess: a user may be called `1234`.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

/// Sections in sections; the format has three.
const MAX_DEPTH: usize = 16;

/// A node and the line it begins on, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub line: usize,
    pub kind: Kind,
}

/// What a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Nothing: `key:` or `~`.
    Null,
    Text(String),
    List(Vec<Node>),
    /// In the order of the file.
    Section(Vec<(Node, Node)>),
}

/// Where the text is no YAML, or none that is read here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Broken {
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub why: String,
}

/// Reads a text of one document.
///
/// # Errors
/// At the first place that can't be read.
pub(super) fn read(text: &str) -> Result<Node, Broken> {
    let mut reader = Reader { events: Parser::new_from_str(text) };
    let (mut document, mut documents) = (None, 0);
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(document.unwrap_or(Node { line: 1, kind: Kind::Null })),
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(broken(span, "a second document; one file has one"));
                }
            }
            Event::DocumentEnd | Event::StreamStart | Event::Nothing => {}
            first => document = Some(reader.node(first, span, 0)?),
        }
    }
}

struct Reader<'t> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Broken> {
        match self.events.next() {
            Some(event) => event.map_err(|error| scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The node that begins with this event.
    fn node(&mut self, first: Event<'t>, span: Span, depth: usize) -> Result<Node, Broken> {
        if depth > MAX_DEPTH {
            return Err(broken(span, "nested too deep"));
        }
        let kind = match first {
            Event::Scalar(text, ScalarStyle::Plain, ..) if is_null(&text) => Kind::Null,
            Event::Scalar(text, ..) => Kind::Text(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut elements = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Kind::List(elements),
                        (event, span) => elements.push(self.node(event, span, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut fields = Vec::new();
                loop {
                    let key = match self.next()? {
                        (Event::MappingEnd, _) => break Kind::Section(fields),
                        (event, span) => self.node(event, span, depth + 1)?,
                    };
                    let (event, span) = self.next()?;
                    fields.push((key, self.node(event, span, depth + 1)?));
                }
            }
            Event::Alias(_) => return Err(broken(span, "an alias; write the value itself")),
            // The parser closes what it opened, so these come where they are expected.
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(broken(span, "a value is missing")),
        };
        Ok(Node { line: span.start.line(), kind })
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn broken(span: Span, why: &str) -> Broken {
    Broken { line: span.start.line(), column: span.start.col() + 1, why: why.to_owned() }
}

fn scan_error(error: &ScanError) -> Broken {
    Broken { line: error.marker().line(), column: error.marker().col() + 1, why: error.info().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: usize, text: &str) -> Node {
        Node { line, kind: Kind::Text(text.to_owned()) }
    }

    #[test]
    fn nodes_have_their_lines_and_scalars_stay_text() {
        let read =
            read("a: 12\nb:\n  - true # no\n  - 'x: y'\n\"c\": |\n  one\n  two\nd:\ne: ~\nf: {g: \"\"}\n").unwrap();
        let list = Kind::List(vec![text(3, "true"), text(4, "x: y")]);
        let null = |line| Node { line, kind: Kind::Null };
        let flow = Kind::Section(vec![(text(10, "g"), text(10, ""))]);
        let Kind::Section(fields) = read.kind else { panic!("{read:?}") };
        let keys: Vec<_> = fields.iter().map(|(key, _)| key.clone()).collect();
        let values: Vec<_> = fields.into_iter().map(|(_, value)| value.kind).collect();
        assert_eq!(keys, [text(1, "a"), text(2, "b"), text(5, "c"), text(8, "d"), text(9, "e"), text(10, "f")]);
        let expected = [text(1, "12").kind, list, text(6, "one\ntwo\n").kind, null(8).kind, null(9).kind, flow];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_text_without_content_is_nothing() {
        for empty in ["", "# only a comment\n", "---\n"] {
            assert_eq!(read(empty).unwrap().kind, Kind::Null, "{empty:?}");
        }
    }

    #[test]
    fn what_is_no_yaml_has_its_place() {
        let deep = format!("a: {}", "[".repeat(MAX_DEPTH + 2));
        for (broken, line) in
            [("a: 1\n b: 2\n", 2), ("a: [1\n", 2), ("a: 1\n---\nb: 2\n", 2), ("a: &x 1\nb: *x\n", 2), (&deep, 1)]
        {
            let error = read(broken).unwrap_err();
            assert_eq!((error.line, error.why.is_empty()), (line, false), "{broken:?}: {error:?}");
        }
    }
}
