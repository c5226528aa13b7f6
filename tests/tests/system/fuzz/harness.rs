//! Inputs from kept ones, by small changes.

use std::cell::Cell;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pintle_tests::{target_dir, workspace_dir};
use proptest::prelude::{Strategy, any};
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use sha2::{Digest as _, Sha256};

/// Most changes of one input.
const MAX_EDITS: usize = 4;
/// One of so many inputs is taken for good at least.
const MIN_TAKEN: u32 = 100;
/// Inputs between two looks at the clock of a long run.
const ROUND: u32 = 5_000;

/// What is fuzzed.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Inputs of a smoke test.
    pub(crate) cases: u32,
    /// Besides the kept inputs.
    pub(crate) seeds: Vec<Vec<u8>>,
    /// What is worth inserting.
    pub(crate) words: &'static [&'static str],
}

/// One change. Places are relative to what is there.
#[derive(Clone, Debug)]
enum Edit {
    Cut(Index),
    Flip(Index, u8),
    Set(Index, u8),
    Delete(Index, usize),
    Repeat(Index, usize, usize),
    Insert(Index, Index),
    /// A word in the place of another one, from another seed: what has structure keeps it.
    Word(Index, Index, Index),
    /// From another seed.
    Splice(Index, Index, Index, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let interesting =
        proptest::sample::select(vec![0_u8, 1, 0x7f, 0x80, 0xff, b'"', b'\\', b'{', b'[', b',', b'\n', b' ']);
    proptest::prop_oneof![
        1 => any::<Index>().prop_map(Edit::Cut),
        12 => (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, seed, from)| Edit::Word(at, seed, from)),
        3 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Edit::Flip(at, bit)),
        3 => (any::<Index>(), proptest::prop_oneof![any::<u8>(), interesting]).prop_map(|(at, to)| Edit::Set(at, to)),
        2 => (any::<Index>(), 1..16_usize).prop_map(|(at, n)| Edit::Delete(at, n)),
        1 => (any::<Index>(), 1..32_usize, 1..64_usize).prop_map(|(at, n, times)| Edit::Repeat(at, n, times)),
        4 => (any::<Index>(), any::<Index>()).prop_map(|(at, word)| Edit::Insert(at, word)),
        2 => (any::<Index>(), any::<Index>(), any::<Index>(), 1..64_usize)
            .prop_map(|(seed, from, at, n)| Edit::Splice(seed, from, at, n)),
    ]
}

/// The word around a place, or what is between two words.
fn word(bytes: &[u8], at: usize) -> Range<usize> {
    let of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./~$".contains(byte);
    let kind = bytes.get(at).is_some_and(of_word);
    let begin = bytes[..at].iter().rposition(|byte| of_word(byte) != kind).map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(|byte| of_word(byte) != kind).map_or(bytes.len(), |n| at + n);
    begin..end
}

impl Edit {
    fn change(&self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
        let n_bytes = bytes.len();
        let place = |at: &Index| at.index(n_bytes + 1);
        match self {
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Flip(at, bit) if n_bytes > 0 => bytes[at.index(n_bytes)] ^= 1 << bit,
            Self::Set(at, to) if n_bytes > 0 => bytes[at.index(n_bytes)] = *to,
            Self::Flip(..) | Self::Set(..) => {}
            Self::Delete(at, n) => drop(bytes.drain(place(at)..(place(at) + n).min(n_bytes))),
            Self::Repeat(at, n, times) => {
                let piece = bytes[place(at)..(place(at) + n).min(n_bytes)].repeat(*times);
                bytes.splice(place(at)..place(at), piece);
            }
            Self::Insert(at, word) if !words.is_empty() => {
                bytes.splice(place(at)..place(at), word.get(words).bytes());
            }
            Self::Insert(..) => {}
            Self::Word(at, seed, from) => {
                let seed = seed.get(seeds);
                let from = word(seed, from.index(seed.len() + 1));
                bytes.splice(word(bytes, place(at)), seed[from].to_vec());
            }
            Self::Splice(seed, from, at, n) => {
                let seed = seed.get(seeds);
                let from = from.index(seed.len() + 1);
                let piece = seed[from..(from + n).min(seed.len())].to_vec();
                bytes.splice(place(at)..place(at), piece);
            }
        }
    }
}

impl Target {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, cases: 20_000, seeds: Vec::new(), words: &[] }
    }

    fn folder(&self) -> PathBuf {
        workspace_dir().join("tests/fuzz").join(self.name)
    }

    /// Fails with the smallest input found for which `check` panics or says what is wrong; else it says whether the input was taken for
    /// good. If hardly any is, nothing is tried behind the first check, and that is a failure as well.
    pub(crate) fn run(mut self, check: impl Fn(&[u8]) -> Result<bool, String>) {
        let mut files: Vec<PathBuf> = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            let bytes = fs::read(&file).unwrap();
            if let Err(why) = check(&bytes) {
                panic!("{}: {why}", file.display());
            }
            self.seeds.push(bytes);
        }
        assert!(!self.seeds.is_empty(), "{} keeps no inputs", self.folder().display());
        let seconds = std::env::var("FUZZ_SECONDS").ok().map(|text| text.parse().expect("FUZZ_SECONDS is a number"));
        let Some(seconds) = seconds else {
            self.round(1, self.cases, &check);
            return;
        };
        let end = Instant::now() + Duration::from_secs(seconds);
        let first: u64 = match std::env::var("FUZZ_SEED") {
            Ok(text) => text.parse().expect("FUZZ_SEED is a number"),
            Err(_) => rand_seed(),
        };
        let mut seed = first;
        while Instant::now() < end {
            self.round(seed, ROUND, &check);
            seed = seed.wrapping_add(1);
        }
        println!("{}: {} rounds of {ROUND} inputs from FUZZ_SEED={first}", self.name, seed.wrapping_sub(first));
    }

    fn round(&self, seed: u64, cases: u32, check: &impl Fn(&[u8]) -> Result<bool, String>) {
        let config = Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..Config::default() };
        let strategy = (any::<Index>(), proptest::collection::vec(edit(), 1..=MAX_EDITS));
        // What ends the process (a stack that overflows) leaves its input here.
        let last = target_dir().join(format!("fuzz-{}.last", self.name));
        let long = std::env::var_os("FUZZ_SECONDS").is_some();
        let n_taken = Cell::new(0_u32);
        let result = TestRunner::new(config).run(&strategy, |(start, edits)| {
            let bytes = self.input(start, &edits);
            if long {
                fs::write(&last, &bytes).unwrap();
            }
            let taken = check(&bytes).map_err(TestCaseError::fail)?;
            n_taken.set(n_taken.get() + u32::from(taken));
            Ok(())
        });
        if let Err(why) = result {
            let TestError::Fail(why, (start, edits)) = why else { panic!("{}: {why}", self.name) };
            let bytes = self.input(start, &edits);
            let digest: String = Sha256::digest(&bytes).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            let file = self.folder().join(format!("found-{digest}"));
            fs::write(&file, &bytes).unwrap();
            panic!(
                "{} with FUZZ_SEED={seed}: {why}\nthe input is in {}: {:?}",
                self.name,
                file.display(),
                String::from_utf8_lossy(&bytes)
            );
        }
        let taken = n_taken.get();
        println!("{}: {taken} of {cases} inputs were taken for good", self.name);
        assert!(taken >= cases / MIN_TAKEN, "{}: only {taken} of {cases} inputs were taken for good", self.name);
    }

    fn input(&self, start: Index, edits: &[Edit]) -> Vec<u8> {
        let mut bytes = start.get(&self.seeds).clone();
        for edit in edits {
            edit.change(&mut bytes, &self.seeds, self.words);
        }
        bytes
    }
}

/// Another one for each long run.
fn rand_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs()
}
