//! From text and overrides to a checked scenario, with every fault found on the way.

use std::collections::BTreeMap;

use crate::{
    Fault, Faults, Override, Place, Scenario,
    conflict::conflicts,
    keys::{KEYS, Key, SECTIONS, is_section, key},
    reserved,
    suggest::nearest,
    tree::{Kind, MapKey, Node, Problem, START, Spot, read},
    value::{Raw, quote},
};

/// A scenario's text and what to call it in messages: the path of its file, or the bundled name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The name for messages.
    pub name: String,
    /// The YAML text.
    pub text: String,
}

/// Reads a scenario. Overrides replace values before anything is checked; of two for one key the last one counts.
///
/// # Errors
/// All faults of the text and the overrides at once. A text that is not YAML has only that fault.
pub fn load(source: &Source, overrides: &[Override]) -> Result<Scenario, Faults> {
    let mut reading = Reading::default();
    let file = Origin::File(&source.name);
    let (root, problems) = read(&source.text);
    let mut is_broken = !problems.is_empty() && root.is_none();
    reading.problems(file, "", problems);
    match root {
        Some(Node { kind: Kind::Map(entries), .. }) => reading.map(file, "", entries),
        Some(Node { kind: Kind::Scalar(raw), .. }) if raw.is_null() => {}
        Some(Node { spot, .. }) => {
            is_broken = true;
            reading.fault(file.at(spot), "", "a scenario is a mapping of keys to values");
        }
        None => {}
    }
    for each in overrides {
        reading.replace(each);
    }
    // What such a text lacks cannot be told.
    if is_broken {
        return Err(reading.into_faults());
    }
    reading.finish(&file.at(START))
}

/// Where the text being read comes from.
#[derive(Debug, Clone, Copy)]
enum Origin<'a> {
    File(&'a str),
    Override(&'a Override),
}

impl Origin<'_> {
    fn at(self, spot: Spot) -> Place {
        match self {
            Self::File(file) => Place::File { file: file.to_owned(), line: spot.line, column: spot.column },
            Self::Override(each) => Place::Override { text: each.text() },
        }
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Reading {
    found: BTreeMap<&'static str, (Place, Raw)>,
    faults: Vec<Fault>,
}

impl Reading {
    fn push(&mut self, place: Place, path: &str, message: impl Into<String>, help: Option<String>) {
        self.faults.push(Fault { place, path: path.to_owned(), message: message.into(), help });
    }

    fn fault(&mut self, place: Place, path: &str, message: impl Into<String>) {
        self.push(place, path, message, None);
    }

    fn problems(&mut self, origin: Origin<'_>, path: &str, problems: Vec<Problem>) {
        for problem in problems {
            self.push(origin.at(problem.spot), path, problem.message, problem.help);
        }
    }

    /// Takes the keys of a mapping; `section` is empty at the top level.
    fn map(&mut self, origin: Origin<'_>, section: &str, entries: Vec<(MapKey, Node)>) {
        let mut first: BTreeMap<String, Spot> = BTreeMap::new();
        for (name, node) in entries {
            let path = join(section, &name.text);
            if let Some(earlier) = first.get(&name.text) {
                let message = format!("the key is there twice; the first is on line {}", earlier.line);
                self.fault(origin.at(name.spot), &path, message);
                continue;
            }
            first.insert(name.text, name.spot);
            self.entry(origin, name.spot, &path, node);
        }
    }

    /// Takes one key, or a whole section.
    fn entry(&mut self, origin: Origin<'_>, spot: Spot, path: &str, node: Node) {
        let value_place = origin.at(node.spot);
        match (key(path), is_section(path), node.kind) {
            (_, _, Kind::Broken) => {}
            (_, true, Kind::Map(entries)) => self.map(origin, path, entries),
            // All keys of the section commented out: what remains is the bare `chain:`.
            (_, true, Kind::Scalar(raw)) if raw.is_null() => {}
            (_, true, _) => self.fault(value_place, path, "is a section: it takes keys, not a value"),
            (Some(_), false, Kind::Scalar(raw)) if raw.is_null() => {
                let help = "write one, or remove the key to have its default";
                self.push(value_place, path, "has no value", Some(help.to_owned()));
            }
            (Some(key), false, Kind::Scalar(raw)) => {
                self.found.insert(key.path, (value_place, raw));
            }
            (Some(key), false, Kind::Map(_)) => self.wrong_kind(value_place, key, "a mapping"),
            (Some(key), false, Kind::List) => self.wrong_kind(value_place, key, "a list"),
            (None, false, _) => match reserved::key(path) {
                Some(refusal) => self.push(origin.at(spot), path, refusal.message, refusal.help),
                None => self.push(origin.at(spot), path, "unknown key", unknown_help(path)),
            },
        }
    }

    fn wrong_kind(&mut self, place: Place, key: &Key, kind: &str) {
        self.fault(place, key.path, format!("{kind} is not {}", key.form));
    }

    fn replace(&mut self, each: &Override) {
        let origin = Origin::Override(each);
        let (root, problems) = read(each.value());
        let is_broken = !problems.is_empty();
        self.problems(origin, each.path(), problems);
        let null = || Node { spot: START, kind: Kind::Scalar(Raw { text: String::new(), plain: true }) };
        if !is_broken {
            self.entry(origin, START, each.path(), root.unwrap_or_else(null));
        }
    }

    /// Checks every value, then what the values have to do with each other.
    fn finish(mut self, start: &Place) -> Result<Scenario, Faults> {
        let mut raws = BTreeMap::new();
        let mut wrong = Vec::new();
        for key in KEYS {
            let Some((place, raw)) = self.found.get(key.path).cloned() else {
                if key.default.is_none() {
                    let is_said = self.faults.iter().any(|fault| fault.path == key.path);
                    if !is_said {
                        self.push(
                            start.clone(),
                            key.path,
                            "the key is missing",
                            Some(format!("it is {}", key.form)),
                        );
                    }
                    wrong.push(key.path);
                }
                raws.insert(key.path, stand_in(key));
                continue;
            };
            match (key.check)(key, &raw) {
                Ok(()) => raws.insert(key.path, raw),
                Err(refusal) => {
                    self.push(place, key.path, refusal.message, refusal.help);
                    wrong.push(key.path);
                    raws.insert(key.path, stand_in(key))
                }
            };
        }
        // With defaults in place of wrong values, so that conflicts of the right ones are found in the same pass.
        let Some(scenario) = Scenario::build(&raws) else { return Err(self.into_faults()) };
        for conflict in conflicts(&scenario) {
            if conflict.keys.iter().any(|path| wrong.contains(path)) {
                continue;
            }
            let written = |path: &&'static str| Some((*path, self.found.get(path)?.0.clone()));
            // Of two that were written, the override is what was changed last.
            let is_override = |(_, place): &(_, Place)| matches!(place, Place::Override { .. });
            let first = conflict.keys.iter().filter_map(written).find(is_override);
            let (path, place) = first
                .or_else(|| conflict.keys.iter().find_map(written))
                .unwrap_or((conflict.keys[0], start.clone()));
            self.push(place, path, conflict.message, Some(conflict.help));
        }
        if self.faults.is_empty() { Ok(scenario) } else { Err(self.into_faults()) }
    }

    fn into_faults(mut self) -> Faults {
        // Stable: overrides stay in the order of the command line.
        self.faults.sort_by_key(|fault| match &fault.place {
            Place::File { line, column, .. } => (0, *line, *column),
            Place::Override { .. } => (1, 0, 0),
        });
        Faults(self.faults)
    }
}

/// The default of a key, or for a key without one a value that only serves to find further faults.
fn stand_in(key: &Key) -> Raw {
    Raw { text: key.default.unwrap_or("unnamed").to_owned(), plain: true }
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}

/// What may have been meant by a key that does not exist.
fn unknown_help(path: &str) -> Option<String> {
    let (section, name) = path.rsplit_once('.').unwrap_or(("", path));
    if name == "<<" {
        return Some("merge keys are not read in scenarios: write the keys out".to_owned());
    }
    if let Some(known) = key(path.trim()).filter(|known| known.path != path) {
        return Some(format!("did you mean `{}`?", known.path));
    }
    let siblings = KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
    let sections =
        SECTIONS.iter().map(|each| each.name).filter(|each| section.is_empty() && !each.is_empty());
    if let Some(near) = nearest(name, siblings.chain(sections)) {
        return Some(format!("did you mean `{near}`?"));
    }
    if let Some(elsewhere) = KEYS.iter().find(|key| key.name == name) {
        return Some(match elsewhere.section {
            "" => format!("`{name}` belongs to the top level"),
            section => format!("`{name}` belongs below `{section}`"),
        });
    }
    let near = nearest(path, KEYS.iter().map(|key| key.path))?;
    Some(format!("did you mean {}?", quote(near)))
}
