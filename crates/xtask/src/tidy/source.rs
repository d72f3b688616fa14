//! What the rules need to know of a Rust file: the paths it names, its functions, its attributes, and which lines are
//! tests. Read from tokens, so that comments and strings do not count and the bodies of macros do.

use std::{collections::BTreeSet, ops::RangeInclusive};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use super::{Finding, Tree, has_extension};

/// Keywords that a path with a leading `::` may follow.
const KEYWORDS: &[&str] = &[
    "as", "break", "dyn", "else", "for", "if", "impl", "in", "match", "mut", "return", "use", "where",
    "while",
];

/// A name as written, `std::fs::read` or `println!`, expanded from groups such as `use std::{fs, io}`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) line: usize,
    /// The segments; a macro's last one ends with `!`, a glob's is `*`.
    pub(super) segments: Vec<String>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) line: usize,
    pub(super) name: String,
    /// Lines of code between the braces; blank lines and comments do not count, as in clippy's `too_many_lines`.
    pub(super) lines: usize,
}

/// An attribute, as the identifiers in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attribute {
    pub(super) line: usize,
    pub(super) idents: Vec<String>,
}

/// One file. Names and functions of tests are left out; attributes are not.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) names: Vec<Name>,
    pub(super) functions: Vec<Function>,
    pub(super) attributes: Vec<Attribute>,
    /// Lines of the file, without those of its tests.
    pub(super) lines: usize,
    /// The file as a whole is a test.
    pub(super) is_test: bool,
    tests: Vec<RangeInclusive<usize>>,
    /// Modules declared here as tests that have a file of their own.
    test_modules: Vec<String>,
}

/// Every Rust file under `crates/`.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) files: Vec<Source>,
    /// Files that are no Rust.
    pub(super) faults: Vec<Finding>,
}

/// Reads every Rust file of the tree and marks those that are tests.
pub(super) fn read_all(tree: &Tree) -> Sources {
    let mut sources = Sources::default();
    for (path, text) in tree.texts() {
        if !path.starts_with("crates/") || !has_extension(path, "rs") {
            continue;
        }
        match read(path, text) {
            Ok(source) => sources.files.push(source),
            Err(error) => sources.faults.push(error),
        }
    }
    let test_files: BTreeSet<String> =
        sources.files.iter().flat_map(|source| source.test_modules.iter().cloned()).collect();
    for source in &mut sources.files {
        // A test module may have modules of its own, in a folder of its name.
        let belongs = |module: &String| {
            source
                .path
                .strip_prefix(module.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.is_test |= test_files.iter().any(belongs) || !is_in_src(&source.path);
    }
    sources
}

/// `crates/NAME/src/...`, and not its `tests/`, `benches/`, `examples/` or `build.rs`.
fn is_in_src(path: &str) -> bool {
    path.split('/').nth(2) == Some("src")
}

/// Reads one file; the error is a finding.
pub(super) fn read(path: &str, text: &str) -> Result<Source, Finding> {
    let stream: TokenStream = text
        .parse()
        .map_err(|error| Finding::new("lex", path, 1, format!("the file does not read as Rust: {error}")))?;
    let mut source = Source { path: path.to_owned(), ..Source::default() };
    source.walk(stream, false);
    let in_tests: BTreeSet<usize> = source.tests.iter().cloned().flatten().collect();
    source.lines = text.lines().count().saturating_sub(in_tests.len());
    Ok(source)
}

impl Source {
    fn walk(&mut self, stream: TokenStream, in_test: bool) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            at = match &tokens[at] {
                TokenTree::Punct(punct) if punct.as_char() == '#' => self.attribute(&tokens, at, in_test),
                TokenTree::Ident(_) if !in_test => self.name(&tokens, at),
                TokenTree::Group(group) => {
                    self.walk(group.stream(), in_test);
                    at + 1
                }
                _ => at + 1,
            };
        }
    }

    /// Takes the attribute at `at` and, if it makes a test of what follows, that too; returns where to go on.
    fn attribute(&mut self, tokens: &[TokenTree], at: usize, in_test: bool) -> usize {
        let is_inner = is_punct(tokens.get(at + 1), '!');
        let body = at + 1 + usize::from(is_inner);
        let Some(TokenTree::Group(group)) = tokens.get(body) else { return at + 1 };
        if group.delimiter() != Delimiter::Bracket {
            return at + 1;
        }
        let idents = idents(group.stream());
        let makes_test = is_test_attribute(&idents);
        self.attributes.push(Attribute { line: line_of(&tokens[at]), idents });
        if !makes_test || in_test {
            return body + 1;
        }
        if is_inner {
            self.is_test = true;
            return body + 1;
        }
        let end = item_end(tokens, body + 1);
        let item = &tokens[body + 1..end];
        let last = item.last().unwrap_or(&tokens[body]);
        self.tests.push(line_of(&tokens[at])..=last.span().end().line);
        self.test_module(item, group);
        self.walk(item.iter().cloned().collect(), true);
        end
    }

    /// Remembers `#[cfg(test)] mod name;` as the path of the module's file without its extension.
    fn test_module(&mut self, item: &[TokenTree], attribute: &Group) {
        let is_declaration = is_punct(item.last(), ';');
        let position = item.iter().position(|token| is_ident(Some(token), "mod"));
        let (true, Some(TokenTree::Ident(name))) =
            (is_declaration, position.and_then(|position| item.get(position + 1)))
        else {
            return;
        };
        let folder = match self.path.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs")) => folder.to_owned(),
            _ => self.path.trim_end_matches(".rs").to_owned(),
        };
        self.test_modules.push(format!("{folder}/{name}"));
        // `#[path = "other.rs"]` beside it, on either side of the `cfg`.
        let tokens: Vec<TokenTree> = item.iter().cloned().chain(attribute.stream()).collect();
        for text in path_attribute(&tokens) {
            let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
            self.test_modules.push(format!("{parent}/{}", text.trim_end_matches(".rs")));
        }
    }

    /// Takes the name (or function) that begins at `at`; returns where to go on.
    fn name(&mut self, tokens: &[TokenTree], at: usize) -> usize {
        if is_ident(tokens.get(at), "fn") {
            self.function(tokens, at);
        }
        // `use ::std::fs` is not a path that begins with `use`.
        if KEYWORDS.iter().any(|keyword| is_ident(tokens.get(at), keyword)) {
            return at + 1;
        }
        expand(&[], tokens, at, &mut self.names)
    }

    fn function(&mut self, tokens: &[TokenTree], at: usize) {
        let Some(TokenTree::Ident(name)) = tokens.get(at + 1) else { return };
        for token in &tokens[at + 2..] {
            match token {
                TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                    let mut lines = BTreeSet::new();
                    code_lines(body.stream(), &mut lines);
                    let lines = lines.len();
                    self.functions.push(Function {
                        line: line_of(&tokens[at]),
                        name: name.to_string(),
                        lines,
                    });
                    return;
                }
                TokenTree::Punct(punct) if punct.as_char() == ';' => return,
                _ => {}
            }
        }
    }
}

/// Reads a path at `at` and adds the names it stands for; returns the first token after it.
fn expand(prefix: &[String], tokens: &[TokenTree], mut at: usize, names: &mut Vec<Name>) -> usize {
    let mut segments = prefix.to_vec();
    let line = line_of(&tokens[at]);
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => segments.push(ident.to_string()),
            Some(TokenTree::Punct(punct)) if punct.as_char() == '*' => segments.push("*".to_owned()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                expand_group(&segments, group, names);
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
            break;
        }
        at += 2;
    }
    let is_macro = is_punct(tokens.get(at), '!') && matches!(tokens.get(at + 1), Some(TokenTree::Group(_)));
    if let (true, Some(last)) = (is_macro, segments.last_mut()) {
        last.push('!');
    }
    names.push(Name { line, segments });
    at
}

fn expand_group(prefix: &[String], group: &Group, names: &mut Vec<Name>) {
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = at == 0 || is_punct(tokens.get(at - 1), ',');
        let is_path = matches!(&tokens[at], TokenTree::Ident(_)) || is_punct(tokens.get(at), '*');
        at = if is_start && is_path { expand(prefix, &tokens, at, names) } else { at + 1 };
    }
}

/// Where the item that begins at `from` ends: after its body or its semicolon.
fn item_end(tokens: &[TokenTree], from: usize) -> usize {
    // In these a brace is not a body.
    let mut to_semicolon = false;
    let mut at = from;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Ident(ident) if ident == "use" || ident == "static" || ident == "let" => {
                to_semicolon = true;
            }
            TokenTree::Ident(ident) if ident == "const" => {
                to_semicolon =
                    !["fn", "unsafe", "async", "extern"].iter().any(|w| is_ident(tokens.get(at + 1), w));
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => return at + 1,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !to_semicolon => {
                return at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// `cfg(test)`, `cfg(all(test, ...))`, `test` and `tokio::test`; not `cfg(not(test))`.
fn is_test_attribute(idents: &[String]) -> bool {
    let has = |word: &str| idents.iter().any(|ident| ident == word);
    match idents.first().map(String::as_str) {
        Some("cfg") => has("test") && !has("not"),
        Some("test") => true,
        Some("tokio") => idents.get(1).is_some_and(|second| second == "test"),
        _ => false,
    }
}

fn path_attribute(tokens: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            found.extend(path_attribute(&group.stream().into_iter().collect::<Vec<_>>()));
        }
        if let (true, true, Some(TokenTree::Literal(text))) =
            (is_ident(Some(token), "path"), is_punct(tokens.get(at + 1), '='), tokens.get(at + 2))
        {
            found.push(text.to_string().trim_matches('"').to_owned());
        }
    }
    found
}

fn idents(stream: TokenStream) -> Vec<String> {
    stream
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![ident.to_string()],
            TokenTree::Group(group) => idents(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

fn code_lines(stream: TokenStream, lines: &mut BTreeSet<usize>) {
    for token in stream {
        match token {
            TokenTree::Group(group) => {
                lines.extend([group.span_open().start().line, group.span_close().end().line]);
                code_lines(group.stream(), lines);
            }
            // A literal may be longer than a line.
            other => lines.extend(other.span().start().line..=other.span().end().line),
        }
    }
}

fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

fn is_ident(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        read("crates/x/src/lib.rs", text).unwrap().names.iter().map(|name| name.segments.join("::")).collect()
    }

    #[test]
    fn groups_are_expanded_and_comments_are_not_read() {
        let found =
            names("// std::net\nuse std::{fs::{self, File as F}, io::*};\nconst T: &str = \"std::env\";");
        assert!(found.contains(&"std::fs::self".to_owned()));
        assert!(found.contains(&"std::fs::File".to_owned()));
        assert!(found.contains(&"std::io::*".to_owned()));
        assert!(!found.iter().any(|name| name.contains("net") || name.contains("env")), "{found:?}");
    }

    #[test]
    fn macros_and_their_bodies_are_read() {
        let found = names("fn f() { println!(\"x\"); select! { _ = std::fs::read(p) => {} } if a != b {} }");
        assert!(found.contains(&"println!".to_owned()));
        assert!(found.contains(&"std::fs::read".to_owned()));
        assert!(found.contains(&"a".to_owned()), "an inequality is no macro: {found:?}");
    }

    #[test]
    fn tests_do_not_count() {
        let text = "use a::b;\n#[cfg(test)]\nuse std::{fs, io};\n#[cfg(not(test))]\nuse c::d;\n\
                    #[cfg(test)]\nmod tests {\n    use std::net;\n\n    #[ignore]\n    fn f() {}\n}\nfn g() {}\n";
        let source = read("crates/x/src/a.rs", text).unwrap();
        assert!(!source.names.iter().any(|name| name.segments[0] == "std"), "{:?}", source.names);
        assert!(source.names.iter().any(|name| name.segments == ["c", "d"]));
        assert_eq!(source.lines, 13 - 2 - 7);
        assert_eq!(source.functions.len(), 1);
        assert!(
            source.attributes.iter().any(|attribute| attribute.idents == ["ignore"] && attribute.line == 10)
        );
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_tests() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "#[cfg(test)]\nmod tests;\nmod real;"),
            ("crates/x/src/real.rs", "#[cfg(test)]\n#[path = \"real_tests.rs\"]\nmod t;"),
            ("crates/x/src/real_tests.rs", ""),
            ("crates/x/src/tests.rs", ""),
            ("crates/x/src/tests/deep.rs", ""),
            ("crates/x/src/testsuite.rs", ""),
            ("crates/x/tests/outside.rs", ""),
        ]);
        let sources = read_all(&tree);
        let real: Vec<_> = sources.files.iter().filter(|s| !s.is_test).map(|s| s.path.as_str()).collect();
        assert_eq!(real, ["crates/x/src/lib.rs", "crates/x/src/real.rs", "crates/x/src/testsuite.rs"]);
    }

    #[test]
    fn function_lines_are_lines_of_code() {
        let text = "fn a() {\n    // why\n\n    let x = [\n        1,\n    ];\n    \"two\nlines\";\n}\ntrait T { fn b(); }";
        let source = read("crates/x/src/lib.rs", text).unwrap();
        assert_eq!(source.functions, [Function { line: 1, name: "a".to_owned(), lines: 5 }]);
    }
}
