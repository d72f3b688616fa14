//! Comments in JSON. neard strips `//`, `#` and `/* */` before parsing (core/config-utils/src/lib.rs, crate
//! `json_comments`), and its own tools write none; people do.

use std::io::{self, Read};

/// A reader that gives its source's bytes with comments blanked out: every byte of a comment but line ends becomes a
/// space, so that lines and columns in errors stay those of the file. Comment marks inside strings are left alone; a
/// lone `/` outside of them, which no JSON has, is an error.
#[derive(Debug)]
pub struct StripComments<R> {
    source: R,
    place: Place,
}

/// Where in the text the scanner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    String,
    /// After a backslash in a string.
    Escape,
    /// After a `/` that must begin a comment.
    Slash,
    Line,
    Block,
    /// After a `*` in a block comment.
    BlockStar,
}

impl<R: Read> StripComments<R> {
    /// Strips the comments of `source`.
    pub fn new(source: R) -> Self {
        Self { source, place: Place::Text }
    }

    /// Where the scanner is after `byte`; none where no JSON goes on like this.
    fn step(&self, byte: u8) -> Option<Place> {
        Some(match (self.place, byte) {
            (Place::Text, b'/') => Place::Slash,
            (Place::Text, b'#') | (Place::Slash, b'/') => Place::Line,
            (Place::Text, b'"') | (Place::Escape, _) => Place::String,
            (Place::String, b'\\') => Place::Escape,
            (Place::String, b'"') | (Place::Line, b'\n') | (Place::BlockStar, b'/') => Place::Text,
            (Place::Block | Place::BlockStar, b'*') => Place::BlockStar,
            (Place::Slash, b'*') | (Place::BlockStar, _) => Place::Block,
            (Place::Slash, _) => return None,
            (same, _) => same,
        })
    }
}

impl Place {
    fn is_comment(self) -> bool {
        matches!(self, Self::Slash | Self::Line | Self::Block | Self::BlockStar)
    }
}

impl<R: Read> Read for StripComments<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(out)?;
        for byte in &mut out[..len] {
            let place = self.step(*byte).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "a `/` outside of strings and comments")
            })?;
            if (self.place.is_comment() || place.is_comment()) && !matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
            self.place = place;
        }
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
        assert!(StripComments::new(b"1 / 2".as_slice()).read_to_end(&mut Vec::new()).is_err());
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
            let read = |source: &mut dyn Read| {
                let mut out = String::new();
                StripComments::new(source).read_to_string(&mut out).map(|_| out).ok()
            };
            let whole = read(&mut text.as_bytes());
            prop_assert!(whole.iter().all(|out| out.len() == text.len()));
            prop_assert_eq!(read(&mut OneByOne(text.as_bytes())), whole);
        }
    }
}
