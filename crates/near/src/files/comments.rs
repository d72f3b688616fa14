//! Comments in JSON. neard strips `//`, `#` and `/* */` before parsing (core/config-utils/src/lib.rs, crate
//! `json_comments`), and its own tools write none; people do.

use std::io::{self, Read};

const BUFFER_BYTES: usize = 64 * 1024;

/// A reader that gives its source's bytes with comments blanked out: every byte of a comment but line ends becomes a
/// space, so that lines and columns in errors stay those of the file. Comment marks inside strings are left alone.
#[derive(Debug)]
pub struct StripComments<R> {
    source: R,
    place: Place,
    buffer: Vec<u8>,
    /// Where unread bytes begin in `buffer`.
    start: usize,
    /// How far `buffer` is filled and blanked.
    end: usize,
    /// A `/` that may begin a comment was the last byte read; it is held back until the next byte decides.
    has_slash: bool,
}

/// Where in the text the scanner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    String,
    /// After a backslash in a string.
    Escape,
    Line,
    Block,
    /// After a `*` in a block comment.
    BlockStar,
}

impl<R: Read> StripComments<R> {
    /// Strips the comments of `source`.
    pub fn new(source: R) -> Self {
        // One byte more than is read at a time: room for a slash held back from the last filling.
        let buffer = vec![0; BUFFER_BYTES + 1];
        Self { source, place: Place::Text, buffer, start: 0, end: 0, has_slash: false }
    }

    /// Fills the buffer; false at the end of the source.
    fn fill(&mut self) -> io::Result<bool> {
        let held = usize::from(self.has_slash);
        self.buffer[0] = b'/';
        let read = self.source.read(&mut self.buffer[held..held + BUFFER_BYTES])?;
        self.start = 0;
        if read == 0 {
            // Nothing follows a slash held back: it is passed on, for the parser to refuse.
            self.end = held;
            self.has_slash = false;
            return Ok(held > 0);
        }
        let filled = held + read;
        self.blank(held, filled);
        self.end = filled - usize::from(self.has_slash);
        Ok(true)
    }

    fn blank(&mut self, from: usize, to: usize) {
        for at in from..to {
            let byte = self.buffer[at];
            if std::mem::take(&mut self.has_slash) {
                match byte {
                    b'/' => self.place = Place::Line,
                    b'*' => self.place = Place::Block,
                    _ => {}
                }
                if self.place != Place::Text {
                    self.buffer[at - 1] = b' ';
                    self.buffer[at] = b' ';
                    continue;
                }
            }
            self.step(at, byte);
        }
    }

    fn step(&mut self, at: usize, byte: u8) {
        let place = self.place;
        self.place = match (place, byte) {
            (Place::Text, b'/') => {
                self.has_slash = true;
                Place::Text
            }
            (Place::Text, b'"') | (Place::Escape, _) => Place::String,
            (Place::Text, b'#') => Place::Line,
            (Place::String, b'\\') => Place::Escape,
            (Place::String, b'"') | (Place::Line, b'\n') | (Place::BlockStar, b'/') => Place::Text,
            (Place::Block | Place::BlockStar, b'*') => Place::BlockStar,
            (Place::BlockStar, _) => Place::Block,
            (same, _) => same,
        };
        let was_comment = matches!(place, Place::Line | Place::Block | Place::BlockStar);
        if (was_comment || self.place == Place::Line) && !matches!(byte, b'\n' | b'\r') {
            self.buffer[at] = b' ';
        }
    }
}

impl<R: Read> Read for StripComments<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.start == self.end {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let len = out.len().min(self.end - self.start);
        out[..len].copy_from_slice(&self.buffer[self.start..self.start + len]);
        self.start += len;
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strip(text: &str) -> String {
        let mut out = String::new();
        StripComments::new(text.as_bytes()).read_to_string(&mut out).expect("text");
        out
    }

    /// Gives one byte at a time, so that every boundary between fillings is met.
    struct OneByOne<'t>(&'t [u8]);

    impl Read for OneByOne<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            out[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn comments_go_and_columns_stay() {
        assert_eq!(strip("{ // a \"b\"\n \"c\": 1 }"), "{         \n \"c\": 1 }");
        assert_eq!(strip("[1, # x\r\n 2]"), "[1,    \r\n 2]");
        assert_eq!(strip("[1, /* ** // */ 2/**/]"), "[1,             2    ]");
        assert_eq!(strip(r#""http://x /* \" # */""#), r#""http://x /* \" # */""#);
        assert_eq!(strip("1 / 2"), "1 / 2");
        assert_eq!(strip("1 /"), "1 /");
        assert_eq!(strip("/* open"), "       ");
    }

    /// JSON values without anything that looks like a comment outside strings; strings hold all comment marks.
    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<u64>().prop_map(Into::into),
            r#"[a/*#"\\\n ]{0,12}"#.prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::Array),
                proptest::collection::vec((r#"[a/*#"\\]{0,6}"#, inner), 0..4)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn text_without_comments_is_left_alone(value in value()) {
            let text = value.to_string();
            prop_assert_eq!(strip(&text), text);
        }

        #[test]
        fn comments_between_lines_change_nothing(value in value(), note in r#"[a-z"{}/ ]{0,10}"#, kind in 0..3) {
            let (open, close) = [("//", "\n"), ("#", "\n"), ("/*", "*/\n")][kind as usize];
            let note = if kind == 2 { note.replace('/', "") } else { note };
            let text = serde_json::to_string_pretty(&value).expect("text");
            let mut noted = String::new();
            for line in text.lines() {
                noted.push_str(line);
                noted.extend([" ", open, &note, close]);
            }
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&strip(&noted)).expect("JSON"), value);
        }

        #[test]
        fn reads_of_any_size_agree(text in r#"[a/*#"\\\n]{0,60}"#) {
            let mut slow = String::new();
            StripComments::new(OneByOne(text.as_bytes())).read_to_string(&mut slow).expect("text");
            prop_assert_eq!(slow.len(), text.len());
            prop_assert_eq!(slow, strip(&text));
        }
    }
}
