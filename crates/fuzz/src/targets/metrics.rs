//! A metrics page as the scraper reads it. The first byte says whose it is.

use std::collections::BTreeMap;

use tpsctl_observe::exposition::{PageError, Role, WANTED, read_page};

use crate::corpus::recorded;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for name in ["chunk-producer-idle.txt", "chunk-producer-overloaded.txt"] {
        let page = String::from_utf8(recorded(&format!("neard/metrics/{name}"))).expect("a page is text");
        let is_near = |line: &&str| WANTED.iter().any(|wanted| line.contains(wanted.name));
        let lines: Vec<&str> = page.lines().filter(is_near).collect();
        for role in ["P", "O"] {
            seeds.push(format!("{role}{}\n", lines.join("\n")).into_bytes());
        }
    }
    seeds.push(b"Onear_chunk_skipped_total{a=\"x,y}\",b=\"\\\"\"} 1 17\nnear_gas_used\t1.5e3\n".to_vec());
    seeds
}

pub(super) fn run(data: &[u8]) {
    let Some((role, page)) = data.split_first() else { return };
    let role = if *role & 1 == 0 { Role::Producer } else { Role::Other };
    let page = String::from_utf8_lossy(page);
    match read_page(&page, role) {
        Ok(values) => check_values(&values, &page, role),
        Err(PageError::Unreadable { line }) => assert!(line.chars().count() <= 120),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn is_wanted(key: &str) -> bool {
    let name = key.split('{').next().unwrap_or_default();
    WANTED.iter().any(|wanted| match name.strip_prefix(wanted.name) {
        Some("") => !wanted.is_histogram,
        Some("_sum" | "_count") => wanted.is_histogram,
        _ => false,
    })
}

fn check_values(values: &BTreeMap<String, f64>, page: &str, role: Role) {
    for (key, value) in values {
        assert!(is_wanted(key) && value.is_finite(), "{key} {value}");
    }
    let mut written: Vec<String> = values.iter().map(|(key, value)| format!("{key} {value}")).collect();
    assert_eq!(read_page(&written.join("\n"), role).as_ref(), Ok(values), "what is written reads back");
    written.reverse();
    let among_others =
        format!("# HELP near_gas_used x\nother 5\n{}\n\nnear_other NaN", written.join("\n# x\n"));
    assert_eq!(read_page(&among_others, role).as_ref(), Ok(values), "neither order nor others matter");
    if !values.is_empty() {
        assert!(read_page(&format!("{page}\n{page}"), role).is_err(), "no series has two values");
    }
}
