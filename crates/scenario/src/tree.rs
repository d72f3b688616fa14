//! YAML text to a tree in which every node knows its place.
//!
//! Built from the parser's events and not with a ready-made loader, for two reasons: a loader stops at the first
//! duplicate key, and it recurses, so that some kilobytes of brackets end the process. What a scenario has no use
//! for (anchors, aliases, tags, several documents) is a fault here. See `docs/adr/0001-yaml-with-spans.md`.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use crate::value::Raw;

/// Line and column, both from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// The start of a text.
pub(crate) const START: Spot = Spot { line: 1, column: 1 };

/// Something that is wrong with the text as YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) spot: Spot,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// A value and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) spot: Spot,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar(Raw),
    /// In the order of the text, duplicates included.
    Map(Vec<(MapKey, Node)>),
    /// No key takes a list, so its items are not kept.
    List,
    /// Already reported as a problem.
    Broken,
}

/// A key and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapKey {
    pub(crate) spot: Spot,
    pub(crate) text: String,
}

/// A scenario has three levels; the bound keeps hostile text from growing the tree.
const DEPTH_MAX: usize = 16;
/// Longest text that is read: far above any scenario a person writes (every key with its comment takes a few kilobytes).
pub const SCENARIO_BYTES_MAX: usize = 256 * 1024;

fn spot(marker: Marker) -> Spot {
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Spot { line: number(marker.line()), column: number(marker.col().saturating_add(1)) }
}

/// Reads one document. The tree is absent when the text is no YAML, or holds nothing.
pub(crate) fn read(text: &str) -> (Option<Node>, Vec<Problem>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Some(problem) = unreadable(text) {
        return (None, vec![problem]);
    }
    let mut builder = Builder::default();
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let taken = match event {
            Ok((event, span)) => builder.take(event, spot(span.start)),
            Err(fault) => {
                let message = format!("not YAML: {}", fault.info());
                Err(Problem {
                    spot: spot(*fault.marker()),
                    message,
                    help: tab_help(text, fault.marker().line()),
                })
            }
        };
        if let Err(problem) = taken {
            builder.problems.push(problem);
            return (None, builder.problems);
        }
    }
    (builder.root, builder.problems)
}

/// YAML's own message for a tab in the indentation seldom says so.
fn tab_help(text: &str, line: usize) -> Option<String> {
    let around = line.saturating_sub(1).max(1)..=line;
    let has_tab = text.lines().enumerate().any(|(index, content)| {
        around.contains(&(index + 1)) && content.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
    });
    has_tab.then(|| "YAML is indented with spaces; a line near here begins with a tab".to_owned())
}

/// What no YAML parser should be asked to read: too much text, and control characters (a parser may take NUL for the end).
fn unreadable(text: &str) -> Option<Problem> {
    if text.len() > SCENARIO_BYTES_MAX {
        let message =
            format!("the text has {} bytes; a scenario has at most {SCENARIO_BYTES_MAX}", text.len());
        return Some(Problem { spot: START, message, help: None });
    }
    let mut place = START;
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}') {
            let message = format!("contains the control character U+{:04X}", u32::from(c));
            return Some(Problem { spot: place, message, help: None });
        }
        place = match c {
            '\n' => Spot { line: place.line + 1, column: 1 },
            _ => Spot { column: place.column + 1, ..place },
        };
    }
    None
}

/// A collection that has begun and not ended.
#[derive(Debug)]
enum Open {
    Map { spot: Spot, entries: Vec<(MapKey, Node)>, key: Option<Node> },
    List { spot: Spot },
}

#[derive(Debug, Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    documents: u32,
    problems: Vec<Problem>,
}

impl Builder {
    /// Takes the next event; an error when reading on makes no sense.
    fn take(&mut self, event: Event<'_>, spot: Spot) -> Result<(), Problem> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => self.document(spot),
            Event::Alias(_) => {
                self.refuse(spot, "aliases (`*name`) are not read in scenarios", "write the value out");
                self.put(Node { spot, kind: Kind::Broken });
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_properties(spot, anchor, tag.is_some());
                let raw = Raw { text: text.into_owned(), plain: style == ScalarStyle::Plain };
                self.put(Node { spot, kind: Kind::Scalar(raw) });
                Ok(())
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_properties(spot, anchor, tag.is_some());
                self.push(spot, Open::List { spot })
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_properties(spot, anchor, tag.is_some());
                self.push(spot, Open::Map { spot, entries: Vec::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => {
                match self.open.pop() {
                    Some(Open::Map { spot, entries, .. }) => {
                        self.put(Node { spot, kind: Kind::Map(entries) });
                    }
                    Some(Open::List { spot }) => self.put(Node { spot, kind: Kind::List }),
                    None => {}
                }
                Ok(())
            }
        }
    }

    fn document(&mut self, spot: Spot) -> Result<(), Problem> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        let message = "a second YAML document begins; a scenario is one".to_owned();
        Err(Problem { spot, message, help: Some("remove this line, or make two files".to_owned()) })
    }

    fn refuse(&mut self, spot: Spot, message: &str, help: &str) {
        self.problems.push(Problem { spot, message: message.to_owned(), help: Some(help.to_owned()) });
    }

    fn refuse_properties(&mut self, spot: Spot, anchor: usize, is_tagged: bool) {
        if anchor > 0 {
            self.refuse(spot, "anchors (`&name`) are not read in scenarios", "remove the anchor");
        }
        if is_tagged {
            self.refuse(spot, "tags (`!name`) are not read in scenarios", "remove the tag");
        }
    }

    fn push(&mut self, spot: Spot, open: Open) -> Result<(), Problem> {
        if self.open.len() >= DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX} levels");
            return Err(Problem { spot, message, help: None });
        }
        self.open.push(open);
        Ok(())
    }

    /// Puts a finished node where it belongs.
    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { .. }) => {}
            Some(Open::Map { entries, key, .. }) => match key.take() {
                None => *key = Some(node),
                Some(Node { spot, kind: Kind::Scalar(raw) }) => {
                    entries.push((MapKey { spot, text: raw.text }, node));
                }
                Some(Node { kind: Kind::Broken, .. }) => {}
                Some(Node { spot, .. }) => {
                    self.refuse(spot, "a key has to be a plain word", "write `key: value`");
                }
            },
        }
    }
}
