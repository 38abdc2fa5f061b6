//! Tests of the decoder: commands are the same wherever the input is cut.

use super::super::stream::RespInputBuffer;
use super::*;
use proptest::prelude::*;

const BOUNDS: RespCommandBounds = RespCommandBounds { words: 8, bytes: 1_000, line: 100 };

/// Commands with owned words, and the error that ended the input, if any.
type DecoderOutput = (Vec<Vec<Vec<u8>>>, Option<RespProtocolError>);

/// Reads chunks as a connection does: takes complete commands, and keeps the rest until more arrives.
fn read(chunks: &[&[u8]]) -> DecoderOutput {
    let (mut buffer, mut commands) = (RespInputBuffer::of(b""), Vec::new());
    for chunk in chunks {
        buffer.put(chunk);
        let mut decoder = RespDecoder::new(buffer.bytes(), BOUNDS);
        loop {
            match decoder.next() {
                Ok(Some(command)) => {
                    commands.push(command.words().iter().map(|word| word.to_vec()).collect());
                }
                Ok(None) => break,
                Err(malformed) => return (commands, Some(malformed)),
            }
        }
        let taken = decoder.taken();
        buffer.take(taken);
    }
    (commands, None)
}

/// Encodes a command as clients do.
pub(in super::super) fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[test]
fn a_pipeline_is_the_same_wherever_it_is_cut() {
    let pipeline: &[u8] =
        b"*1\r\n$4\r\nPING\r\nECHO hi\r\n*0\r\n\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n\
        *-1\r\nPING 'a b'\n*3\r\n$1\r\n$\r\n$2\r\n\r\n\r\n$2\r\n*1\r\n";
    let whole = read(&[pipeline]);
    assert_eq!((whole.0.len(), whole.1), (5, None));
    for first in 0..=pipeline.len() {
        for second in first..=pipeline.len() {
            let (a, b, c) = (&pipeline[..first], &pipeline[first..second], &pipeline[second..]);
            assert_eq!(read(&[a, b, c]), whole, "{first} {second}");
        }
    }
    let bytes: Vec<&[u8]> = pipeline.chunks(1).collect();
    assert_eq!(read(&bytes), whole);
}

#[test]
fn what_is_no_command_is_refused_for_what_it_is() {
    for (bytes, malformed) in [
        (&b"*x\r\n"[..], RespProtocolError::Count(None)),
        (b"*\r\n", RespProtocolError::Count(None)),
        (b"*1\rx", RespProtocolError::Count(None)),
        (b"*+1\r\n", RespProtocolError::Count(None)),
        (b"*1000000000000000000000\r\n", RespProtocolError::Count(None)),
        (b"*9\r\n", RespProtocolError::Count(Some((9, 8)))),
        (b"*999999999999\r\n", RespProtocolError::Count(Some((999_999_999_999, 8)))),
        (b"*1\r\n$x\r\n", RespProtocolError::Length(None)),
        (b"*1\r\n$-1\r\n", RespProtocolError::Length(Some((-1, 1_000)))),
        (b"*1\r\n$1001\r\n", RespProtocolError::Length(Some((1_001, 1_000)))),
        (b"*1\r\n:1\r\n", RespProtocolError::NoWord(b':')),
        (b"*1\r\n*1\r\n", RespProtocolError::NoWord(b'*')),
        (b"*1\r\n$1\r\nab\r\n", RespProtocolError::NoEnd),
        (b"*1\r\n$1\r\na\rb", RespProtocolError::NoEnd),
        (b"*1\r\n$1\r\naX", RespProtocolError::NoEnd),
        (b"ECHO 'x\r\n", RespProtocolError::Quotes),
        (b"1 2 3 4 5 6 7 8 9\r\n", RespProtocolError::Count(Some((9, 8)))),
        (&[b'x'; 101], RespProtocolError::Line(100)),
    ] {
        let shown = bytes.escape_ascii();
        assert_eq!(read(&[bytes]), (vec![], Some(malformed)), "{shown}");
        assert!(malformed.to_string().starts_with("Protocol error: "));
    }
}

#[test]
fn the_words_of_a_command_share_their_room() {
    let words = vec![vec![b'x'; 500], vec![b'y'; 500]];
    assert_eq!(read(&[&encode(&words)]), (vec![words], None));
    let words = vec![vec![b'x'; 500], vec![b'y'; 501]];
    assert_eq!(read(&[&encode(&words)]).1, Some(RespProtocolError::Length(Some((501, 1_000)))));
}

#[test]
fn a_line_of_the_maximum_length_is_read() {
    let line = [&[b'x'; 99][..], b"\n"].concat();
    assert_eq!(read(&[&line]).0.len(), 1);
    assert_eq!(read(&[&[b'x'; 100]]), (vec![], None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_is_encoded_is_read_whatever_the_cuts(
        commands in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..8), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(read(&chunks), (commands, None));
    }

    /// Where the input is cut affects neither what is read nor what is refused.
    #[test]
    fn garbage_is_read_alike_whatever_the_cuts(
        bytes in prop::collection::vec(
            prop::sample::select(&b"*$-019\r\n\"' ax\0\xff"[..]), 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(read(&[left, right]), read(&[&bytes]));
    }
}
