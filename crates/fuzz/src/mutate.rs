//! A simple mutator: from one seed always the same inputs.

use rand::RngExt;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

/// Longest input made.
const LEN_MAX: usize = 128 * 1024;

/// Texts that readers of text and numbers may stumble over.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "65536",
    "4294967296",
    "18446744073709551615",
    "18446744073709551616",
    "1e999",
    "-0",
    "0.1",
    "NaN",
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\u0000",
    "\\ud800",
    "\n",
    "\r",
    "\t",
    "\0",
    "# ",
    "/*",
    "*/",
    "//",
    "&a ",
    "*a",
    "!!str ",
    "<<: ",
    "é",
    "\u{feff}",
    "%",
];

/// Makes inputs out of seeds.
#[derive(Debug)]
pub struct Mutator {
    rng: ChaCha8Rng,
}

impl Mutator {
    /// A mutator of this number.
    pub fn new(number: u64) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(number) }
    }

    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.rng.random_range(0..bound) }
    }

    /// An input made of one of `seeds`, perhaps with a part of another.
    pub fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let pick = self.below(seeds.len());
        let mut input = seeds.get(pick).cloned().unwrap_or_default();
        for _ in 0..=self.below(6) {
            self.change(&mut input, seeds);
        }
        input.truncate(LEN_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(input.len());
        let end = (at + 1 + self.below(40)).min(input.len());
        match self.below(9) {
            0 => self.set_byte(input, at),
            1 => {
                let bit = self.below(8);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            2 if at < end => drop(input.drain(at..end)),
            3 if at < end => {
                let part = input[at..end].to_vec();
                let to = self.below(input.len());
                input.splice(to..to, part);
            }
            4 => {
                let word = WORDS[self.below(WORDS.len())];
                input.splice(at..at, word.bytes());
            }
            5 => self.replace_number(input, at),
            6 => {
                let other = self.below(seeds.len());
                if let Some(other) = seeds.get(other).filter(|other| !other.is_empty()) {
                    let from = self.below(other.len());
                    let to = (from + 1 + self.below(200)).min(other.len());
                    input.splice(at..at, other[from..to].iter().copied());
                }
            }
            7 => {
                let number = [0_u64, 1, u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 31][self.below(6)];
                for (byte, new) in input.iter_mut().skip(at).zip(number.to_le_bytes()) {
                    *byte = new;
                }
            }
            _ => input.truncate(at),
        }
    }

    fn set_byte(&mut self, input: &mut Vec<u8>, at: usize) {
        let byte = self.rng.random_range(0..=255_u8);
        match input.get_mut(at) {
            Some(own) => *own = byte,
            None => input.push(byte),
        }
    }

    /// Replaces the digits around `at`, or the next ones, by another number.
    fn replace_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(from) = input.iter().skip(at).position(u8::is_ascii_digit).map(|skipped| at + skipped)
        else {
            return;
        };
        let len = input[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let word = WORDS[self.below(12)];
        input.splice(from..from + len, word.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_makes_one_series() {
        let seeds = [b"one: 1\n".to_vec(), vec![0; 100]];
        let series = |number| {
            let mut mutator = Mutator::new(number);
            (0..200).map(|_| mutator.input(&seeds)).collect::<Vec<_>>()
        };
        assert_eq!(series(1), series(1));
        assert_ne!(series(1), series(2));
        assert!(series(1).iter().any(|input| input.len() > 100));
    }

    #[test]
    fn nothing_can_be_mutated_too() {
        let mut mutator = Mutator::new(3);
        for _ in 0..500 {
            mutator.input(&[]);
            mutator.input(&[Vec::new()]);
        }
    }
}
