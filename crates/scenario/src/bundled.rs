//! The scenarios that the binary carries with it.

use crate::Source;

/// Name (without `.yaml`) and text of every scenario of the folder `scenarios/`.
pub fn bundled() -> &'static [(&'static str, &'static str)] {
    &[("quickstart", include_str!("../../../scenarios/quickstart.yaml"))]
}

/// The bundled scenario called `name`, with or without `.yaml`. That an existing path beats a bundled name is for the
/// caller to see to: nothing here looks at files.
pub fn resolve_name(name: &str) -> Option<Source> {
    let stem = name.strip_suffix(".yaml").unwrap_or(name);
    let (stem, text) = bundled().iter().find(|(known, _)| *known == stem)?;
    Some(Source { name: format!("{stem}.yaml"), text: (*text).to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    #[test]
    fn a_bundled_name_may_carry_its_ending() {
        let plain = resolve_name("quickstart").unwrap();
        assert_eq!(resolve_name("quickstart.yaml"), Some(plain.clone()));
        assert_eq!(plain.name, "quickstart.yaml");
        assert_eq!(resolve_name("quickstart.yml"), None);
        assert_eq!(resolve_name(".yaml"), None);
    }

    #[test]
    fn every_bundled_scenario_loads_and_bears_its_file_name() {
        for (name, _) in bundled() {
            let scenario =
                load(&resolve_name(name).unwrap(), &[]).unwrap_or_else(|faults| panic!("{faults}"));
            assert_eq!(scenario.name(), *name);
        }
    }
}
