//! The floor: a tokio server that finds the commands in what it reads, answers PONG to each that
//! has one word, and the same decision to all others.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(answer(stream));
    }
}

async fn answer(mut stream: TcpStream) {
    let (mut input, mut output) = (vec![0; 16 << 10], Vec::new());
    let mut length = 0;
    while let Ok(read @ 1..) = stream.read(&mut input[length..]).await {
        length += read;
        let mut taken = 0;
        while let Some((words, command)) = command(&input[taken..length]) {
            taken += command;
            output.extend_from_slice(if words == 1 { PONG } else { ALLOWED });
        }
        input.copy_within(taken..length, 0);
        length -= taken;
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}

const PONG: &[u8] = b"+PONG\r\n";
const ALLOWED: &[u8] = b"*5\r\n:0\r\n:100000001\r\n:99999999\r\n:-1\r\n:1\r\n";

/// How many words the command at the start of `input` has, and its length, once it is complete.
fn command(input: &[u8]) -> Option<(usize, usize)> {
    let (words, mut at) = number(input, 0)?;
    for _ in 0..words {
        let (length, start) = number(input, at)?;
        at = start + length + 2;
    }
    (at <= input.len()).then_some((words, at))
}

/// The number after the sign at `at`, and where the next line begins.
fn number(input: &[u8], at: usize) -> Option<(usize, usize)> {
    let digits = input.get(at + 1..)?;
    let end = digits.iter().position(|byte| *byte == b'\r')?;
    let fold = |number: usize, byte: &u8| number * 10 + usize::from(byte.wrapping_sub(b'0'));
    Some((digits[..end].iter().fold(0, fold), at + end + 3))
}
