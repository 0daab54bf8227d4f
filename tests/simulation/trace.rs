//! The trace of a run: a hash, which must be equal in every run of the same seed, and optionally text.

/// An FNV-1a hash of all steps.
#[derive(Debug)]
pub(crate) struct RunTrace {
    hash: u64,
    step: u64,
    is_shown: bool,
}

impl RunTrace {
    pub(crate) fn new(is_shown: bool) -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, step: 0, is_shown }
    }

    /// Adds one step. `words` is its fingerprint; `describe` is called only if the trace is printed.
    pub(crate) fn step(&mut self, words: &[u64], describe: impl FnOnce() -> String) {
        self.step += 1;
        for word in words {
            self.add_bytes(&word.to_le_bytes());
        }
        if self.is_shown {
            println!("{:>6}  {}", self.step, describe());
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }
}
