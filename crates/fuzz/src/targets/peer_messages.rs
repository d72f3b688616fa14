//! Private messages to one node of a chain of two that has already made some blocks: records of a kind, flags, a length
//! and so many bytes. The seeds are what the other node said next.

pub(super) mod chain;
mod resign;

use tpsctl_localchain::core::{Effect, Event, Message};
use tpsctl_near::p2p::field::PRIVATE_MIN;

use self::{
    chain::{Pair, sender},
    resign::resign,
};
use super::bytes::Bytes;

/// The message comes from one who proved nothing.
const FROM_STRANGER: u8 = 1;
/// What is signed in it is signed again, so that it gets past that check.
const RESIGNED: u8 = 2;
/// Bits that say how much time passes before, in tenths of a second.
const TENTHS: u8 = 0b1_1100;
/// The other node goes and comes back.
const RECONNECTS: u8 = 32;

/// Records taken of one input.
const RECORDS_MAX: usize = 64;

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut pair = Pair::begun();
    let heard = pair.listen(12);
    let record = |message: &Message, flags: u8| {
        let (kind, content) = parts(&message.frame());
        let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
        let mut record = vec![kind, flags];
        record.extend_from_slice(&len.to_le_bytes());
        record.extend_from_slice(&content);
        record
    };
    let mut seeds: Vec<Vec<u8>> = heard.iter().map(|message| record(message, 0)).collect();
    seeds.truncate(24);
    seeds.push(heard.iter().take(20).flat_map(|message| record(message, 4)).collect());
    seeds.push(heard.iter().take(20).flat_map(|message| record(message, RESIGNED)).collect());
    seeds.push(heard.iter().take(20).flat_map(|message| record(message, FROM_STRANGER)).collect());
    seeds.push(record(&Message::Head { height: 1 << 40 }, 4));
    seeds.push(record(&Message::BlocksRequest { from_height: 1 }, FROM_STRANGER));
    seeds.push(record(&Message::Transactions(vec![vec![0; 10]]), 0));
    seeds
}

/// Number above [`PRIVATE_MIN`] and content of a private message's frame.
fn parts(frame: &[u8]) -> (u8, Vec<u8>) {
    let mut rest = &frame[4..];
    let key = prost::encoding::decode_varint(&mut rest).expect("an own frame");
    let len = prost::encoding::decode_varint(&mut rest).expect("an own frame");
    assert_eq!(rest.len() as u64, len);
    ((key >> 3) as u8 ^ PRIVATE_MIN as u8, rest.to_vec())
}

pub(super) fn run(data: &[u8]) {
    let mut bytes = Bytes(data);
    let mut pair = Pair::begun();
    let mut may_go_on = true;
    for _ in 0..RECORDS_MAX {
        if bytes.is_empty() {
            break;
        }
        let (kind, flags) = (bytes.u8(), bytes.u8());
        let len = usize::from(bytes.u16());
        let content = bytes.slice(len);
        let is_resigned = flags & RESIGNED != 0;
        let content = if is_resigned { resign(kind, content) } else { content.to_vec() };
        may_go_on &= flags & (FROM_STRANGER | RESIGNED | RECONNECTS) == FROM_STRANGER;
        pair.pass_tenths(u32::from((flags & TENTHS) >> 2));
        if flags & RECONNECTS != 0 {
            pair.reconnect();
        }
        let Some(message) = read(kind, &content) else { continue };
        let event = Event::Peer { from: sender(flags & FROM_STRANGER != 0), message };
        if pair.tell(event).iter().any(|effect| matches!(effect, Effect::TooFarBehind { .. })) {
            return;
        }
    }
    // Whatever strangers say, the chain goes on.
    if may_go_on {
        let height = pair.height();
        pair.run_both(60);
        assert!(pair.height() >= height + 2, "{} after {height}", pair.height());
    }
}

/// The message, if it is one; then it has one encoding.
fn read(kind: u8, content: &[u8]) -> Option<Message> {
    let number = PRIVATE_MIN + u32::from(kind % 16);
    match Message::read(number, content) {
        Ok(message) => {
            let message = message?;
            assert_eq!(parts(&message.frame()).1, content, "{} has one encoding", message.name());
            Some(message)
        }
        Err(error) => {
            assert_eq!(error.field, number);
            None
        }
    }
}
