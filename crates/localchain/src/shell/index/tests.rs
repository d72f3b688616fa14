use tempfile::TempDir;
use tpsctl_near::files::{GenesisFile, write_genesis};

use super::*;
use crate::{core::kept_shards, shell::home::Home};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/neard/home").join(name)
}

/// A copy of a fixture home, its genesis with one record a line.
fn home(name: &str) -> TempDir {
    let (from, to) = (testdata(name), tempfile::tempdir().expect("folder"));
    fs::create_dir(to.path().join("epoch_configs")).expect("folder");
    for file in ["config.json", "node_key.json", "validator_key.json", "epoch_configs/86.json"] {
        if from.join(file).exists() {
            fs::copy(from.join(file), to.path().join(file)).expect("fixture");
        }
    }
    let genesis = fs::File::open(from.join("genesis.json")).expect("fixture");
    let GenesisFile { config, records } = GenesisFile::read(genesis).expect("a genesis");
    let out = fs::File::create(to.path().join("genesis.json")).expect("file");
    write_genesis(&config, records, io::BufWriter::new(out)).expect("written");
    to
}

/// The hash of the chain, and the shards whose accounts are there.
fn chain_of(home: &TempDir) -> (CryptoHash, Vec<bool>) {
    let settings = Home::read(home.path()).expect("a home").settings;
    let kept = kept_shards(&settings.genesis, settings.validator.as_ref(), &settings.tracked);
    let users = ["000_user_0", "a01_user_0"].map(|id| id.parse().expect("id"));
    let is_there = |(shard, kept): (usize, &bool)| {
        let is_there = settings.genesis.states[shard].account(&users[shard]).is_some();
        assert!(is_there || !kept, "what is kept is there");
        is_there
    };
    (settings.genesis.block().hash(), kept.iter().enumerate().map(is_there).collect())
}

#[test]
fn with_and_without_index_every_node_has_the_same_chain() {
    let mut hashes = Vec::new();
    for (name, tracked) in [("node0", 1), ("node1", 1), ("node2", 2)] {
        let home = home(name);
        let (whole, there) = chain_of(&home);
        assert_eq!(there, [true, true], "without an index all is read");
        index_genesis(&home.path().join("genesis.json")).expect("an index");
        let (indexed, there) = chain_of(&home);
        assert_eq!(there.into_iter().filter(|is_there| *is_there).count(), tracked, "{name}");
        hashes.extend([whole, indexed]);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

/// A change, and what it is.
type Tampering = (&'static str, Box<dyn Fn(&mut Index)>);

/// What a tampered index makes of the two validators' chains.
fn tampered(tamper: &dyn Fn(&mut Index)) -> [CryptoHash; 2] {
    ["node0", "node1"].map(|name| {
        let home = home(name);
        let path = index_genesis(&home.path().join("genesis.json")).expect("an index");
        let mut index: Index = serde_json::from_slice(&fs::read(&path).expect("index")).expect("own");
        tamper(&mut index);
        fs::write(&path, serde_json::to_vec(&index).expect("JSON")).expect("index");
        chain_of(&home).0
    })
}

#[test]
fn a_tampered_index_never_makes_another_chain_that_all_agree_on() {
    let truth = chain_of(&home("node0")).0;
    assert_eq!(tampered(&|_| {}), [truth; 2]);
    let shift = |lines: &mut Vec<(u64, u64)>, by: u64| lines[0].1 -= by;
    let changes: Vec<Tampering> = vec![
        ("another genesis", Box::new(|own| own.genesis_sha256 = CryptoHash([1; 32]))),
        ("another length", Box::new(|own| own.genesis_bytes += 1)),
        ("another head", Box::new(|own| own.head_bytes -= 1)),
        ("no accounts", Box::new(|own| own.accounts = 0)),
        ("a lacking part", Box::new(|own| own.shards[0].lines.truncate(0))),
        (
            "a part twice",
            Box::new(|own| {
                let part = own.shards[0].lines[0];
                own.shards[1].lines.push(part);
            }),
        ),
        ("half a line", Box::new(move |own| shift(&mut own.shards[0].lines, 3))),
        (
            "one more shard",
            Box::new(|own| {
                own.shards.push(Part { state_root: CryptoHash::default(), lines: Vec::new() });
            }),
        ),
    ];
    for (what, change) in changes {
        assert_eq!(tampered(&change), [truth; 2], "{what} is noticed by everybody");
    }
    let whole_lines = |own: &mut Index| {
        let part = own.shards[0].lines.pop().expect("a part");
        own.shards[1].lines.push(part);
    };
    let changes: Vec<Tampering> = vec![
        ("a root of the first shard", Box::new(|own| own.shards[0].state_root = CryptoHash([2; 32]))),
        ("a root of the second shard", Box::new(|own| own.shards[1].state_root = CryptoHash([2; 32]))),
        ("a part in the wrong shard", Box::new(whole_lines)),
        ("the shards exchanged", Box::new(|own| own.shards.swap(0, 1))),
    ];
    for (what, change) in changes {
        let hashes = tampered(&change);
        assert!(hashes.contains(&truth), "{what}: whoever keeps the shard reads all of genesis");
        assert!(
            hashes == [truth; 2] || hashes[0] != hashes[1],
            "{what}: those who believed it are refused by the others"
        );
    }
}

#[test]
fn an_index_of_an_earlier_genesis_is_not_used() {
    let home = home("node0");
    let path = home.path().join("genesis.json");
    index_genesis(&path).expect("an index");
    let before = chain_of(&home).0;
    let text = fs::read_to_string(&path).expect("genesis");
    // The same length, and another balance; the supply with it, since a node sums that up.
    let at = text.find("a01_user_7").expect("a user")
        + text[text.find("a01_user_7").expect("a user")..].find("\"amount\":\"1").expect("its balance");
    let mut changed = text.clone();
    changed.replace_range(at..at + 11, "\"amount\":\"2");
    let changed = changed.replace("4000004000000000000000000000000000", "4000004100000000000000000000000000");
    assert_eq!(changed.len(), text.len());
    fs::write(&path, &changed).expect("genesis");
    let after = chain_of(&home);
    assert_ne!(after.0, before);
    assert_eq!(after.1, [true, true], "all of genesis was read");
    fs::write(path_of(&path), "{ torn").expect("index");
    assert_eq!(chain_of(&home), after);
}

#[test]
fn a_genesis_that_is_laid_out_otherwise_gets_no_index() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("genesis.json");
    fs::copy(testdata("node0").join("genesis.json"), &path).expect("fixture");
    let error = index_genesis(&path).expect_err("records of many lines");
    assert!(matches!(error, IndexError::Genesis(_)), "{error:?}");
    assert!(!path_of(&path).exists());
}
