//! A stream of frames in pieces: limit, length of the pieces, then the stream.

use prost::Message;
use tpsctl_near::p2p::{FrameDecoder, FrameError, Received, append_transaction, frame, read_message, wire};

use super::bytes::Bytes;
use crate::corpus::recorded;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let streams =
        ["accepted/client-to-node.bin", "accepted/node-to-client.bin", "refused-version/node-to-client.bin"];
    let mut seeds: Vec<Vec<u8>> = streams
        .iter()
        .map(|name| [&[0xff, 0xff, 3, 100][..], &recorded(&format!("neard/p2p/{name}"))].concat())
        .collect();
    seeds.push([&[16, 0, 0, 0][..], &frame(&[]), &frame(&[1; 16]), &frame(&[2; 17])].concat());
    seeds
}

/// What a stream comes to: its messages, then what follows them.
#[derive(Debug, PartialEq)]
struct Read {
    messages: Vec<Vec<u8>>,
    end: Result<usize, FrameError>,
}

/// The stream read as a whole, in the plainest way.
fn read_whole(mut stream: &[u8], len_max: usize) -> Read {
    let mut messages = Vec::new();
    while let Some((prefix, rest)) = stream.split_first_chunk::<4>() {
        let len = u32::from_le_bytes(*prefix) as usize;
        if len > len_max {
            return Read { messages, end: Err(FrameError { len, len_max }) };
        }
        let Some((message, rest)) = rest.split_at_checked(len) else { break };
        messages.push(message.to_vec());
        stream = rest;
    }
    Read { messages, end: Ok(stream.len()) }
}

fn read_in_pieces(stream: &[u8], piece_len: usize, len_max: usize) -> Read {
    let mut decoder = FrameDecoder::with_limit(len_max);
    let mut messages = Vec::new();
    for piece in stream.chunks(piece_len) {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(message)) => messages.push(message.to_vec()),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_frame(), Err(error), "it stays an error");
                    return Read { messages, end: Err(error) };
                }
            }
        }
        assert!(decoder.pending() < len_max + 4, "no more is kept than one frame");
    }
    Read { messages, end: Ok(decoder.pending()) }
}

pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let len_max = usize::from(bytes.u16()) * (1 + usize::from(bytes.u8()));
    let piece_len = usize::from(bytes.u8()) + 1;
    let Bytes(stream) = bytes;
    let whole = read_whole(stream, len_max);
    assert_eq!(read_in_pieces(stream, piece_len, len_max), whole);
    for message in &whole.messages {
        check_message(message);
    }
}

fn check_message(message: &[u8]) {
    if let Received::Transaction(borsh) = read_message(message) {
        let mut framed = Vec::new();
        append_transaction(&mut framed, &borsh);
        assert_eq!(read_message(&framed[4..]), Received::Transaction(borsh));
    }
    if let Ok(decoded) = wire::PeerMessage::decode(message) {
        let again = wire::PeerMessage::decode(decoded.encode_to_vec().as_slice());
        assert_eq!(again.as_ref(), Ok(&decoded));
    }
}
