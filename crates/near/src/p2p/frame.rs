//! Length-prefixed frames, and transactions written into them without an allocation.

use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};

use super::field;

/// Longest message that neard reads (chain/network/src/peer/stream.rs:17).
pub const FRAME_LEN_MAX: usize = 512 * 1024 * 1024;

/// A frame is longer than the reader allows; the connection cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("peer announces a frame of {len} bytes, more than the {len_max} allowed")]
pub struct FrameError {
    /// Announced.
    pub len: usize,
    /// Allowed.
    pub len_max: usize,
}

/// `message` with its length before it.
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 4);
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(message);
    out
}

/// Splits a byte stream into messages.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    start: usize,
    len_max: Option<usize>,
}

impl FrameDecoder {
    /// A decoder that refuses frames over `len_max` bytes.
    pub fn with_limit(len_max: usize) -> Self {
        Self { len_max: Some(len_max), ..Self::default() }
    }

    /// Refuses frames over `len_max` bytes from now on, longer ones than before or shorter.
    pub fn set_limit(&mut self, len_max: usize) {
        self.len_max = Some(len_max);
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 && (self.start == self.buffer.len() || self.start > 1 << 20) {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, without its length; none until more was pushed.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.buffer[self.start..];
        let Some(prefix) = rest.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*prefix) as usize;
        let len_max = self.len_max.unwrap_or(FRAME_LEN_MAX);
        if len > len_max {
            return Err(FrameError { len, len_max });
        }
        if rest.len() < 4 + len {
            return Ok(None);
        }
        let from = self.start + 4;
        self.start = from + len;
        Ok(Some(&self.buffer[from..from + len]))
    }

    /// Bytes pushed and not yet returned.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }
}

/// Protobuf key of a length-delimited field.
fn key(number: u32) -> u64 {
    u64::from(number << 3 | 2)
}

/// Length of the frame that [`append_transaction`] writes for `transaction_len` bytes of borsh.
pub fn transaction_frame_len(transaction_len: usize) -> usize {
    let inner = 1 + encoded_len_varint(transaction_len as u64) + transaction_len;
    4 + encoded_len_varint(key(field::TRANSACTION)) + encoded_len_varint(inner as u64) + inner
}

/// Appends the frame of `PeerMessage.transaction` with `transaction` (borsh of a signed transaction) to `out`.
pub fn append_transaction(out: &mut Vec<u8>, transaction: &[u8]) {
    append_borsh(out, field::TRANSACTION, transaction);
}

/// The frame of `PeerMessage.block_response` with `block` (borsh of a block), which has a message of its own within.
pub fn block_frame(block: &[u8]) -> Vec<u8> {
    let mut inner = Vec::with_capacity(block.len() + 8);
    encode_varint(key(1), &mut inner);
    encode_varint(block.len() as u64, &mut inner);
    inner.extend_from_slice(block);
    let mut out = Vec::with_capacity(inner.len() + 16);
    append_borsh(&mut out, field::BLOCK_RESPONSE, &inner);
    out
}

/// The borsh of the block in a `PeerMessage.block_response` (without its length), if the message is one.
pub fn read_block(message: &[u8]) -> Option<&[u8]> {
    read_field(read_field(read_field(message, field::BLOCK_RESPONSE)?, 1)?, 1)
}

/// The content of a message that has nothing but this length-delimited field.
fn read_field(message: &[u8], number: u32) -> Option<&[u8]> {
    let mut rest = message;
    if decode_varint(&mut rest).ok()? != key(number) {
        return None;
    }
    let len = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
    (rest.len() == len).then_some(rest)
}

/// Appends the frame of a message with `borsh` in field 1 of field `number`.
fn append_borsh(out: &mut Vec<u8>, number: u32, borsh: &[u8]) {
    let inner = 1 + encoded_len_varint(borsh.len() as u64) + borsh.len();
    let body = encoded_len_varint(key(number)) + encoded_len_varint(inner as u64) + inner;
    out.extend_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_le_bytes());
    encode_varint(key(number), out);
    encode_varint(inner as u64, out);
    encode_varint(key(1), out);
    encode_varint(borsh.len() as u64, out);
    out.extend_from_slice(borsh);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::{super::wire, *};

    proptest! {
        #[test]
        fn frames_survive_any_split(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            cut in 1_usize..50,
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|message| frame(message)).collect();
            let mut decoder = FrameDecoder::default();
            let mut read = Vec::new();
            for piece in stream.chunks(cut) {
                decoder.push(piece);
                while let Some(message) = decoder.next_frame().expect("short frames") {
                    read.push(message.to_vec());
                }
            }
            prop_assert_eq!(read, messages);
            prop_assert_eq!(decoder.pending(), 0);
        }

        #[test]
        fn transactions_are_written_as_prost_writes_them(borsh in proptest::collection::vec(any::<u8>(), 1..400)) {
            let mut written = Vec::new();
            append_transaction(&mut written, &borsh);
            prop_assert_eq!(written.len(), transaction_frame_len(borsh.len()));
            let body = Some(wire::Body::Transaction(wire::BorshBytes { borsh }));
            prop_assert_eq!(written, frame(&wire::PeerMessage { body }.encode_to_vec()));
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused() {
        let mut decoder = FrameDecoder::with_limit(10);
        decoder.push(&frame(&[0; 11]));
        assert_eq!(decoder.next_frame(), Err(FrameError { len: 11, len_max: 10 }));
    }
}
