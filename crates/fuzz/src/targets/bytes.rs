//! Values out of bytes; zeros where there are no more.

/// What is left of an input.
#[derive(Debug)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    /// So many bytes, zeros at the end where there are fewer.
    pub(super) fn array<const LEN: usize>(&mut self) -> [u8; LEN] {
        let taken = self.slice(LEN);
        let mut array = [0; LEN];
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// At most so many bytes.
    pub(super) fn slice(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    pub(super) fn u128(&mut self) -> u128 {
        u128::from_le_bytes(self.array())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
