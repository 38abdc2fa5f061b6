//! Limiters behind a command: requests as lines of JSON on its standard input, answers on its output.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

use super::{AdapterError, CallAnswer};
use crate::history::StatedWait;

/// A running command, shared by all callers.
#[derive(Clone, Debug)]
pub(crate) struct CommandPipe {
    input: Arc<tokio::sync::Mutex<ChildStdin>>,
    waiting: Arc<Mutex<WaitingCalls>>,
    /// Ends with the last handle.
    _child: Arc<Child>,
}

#[derive(Debug, Default)]
struct WaitingCalls {
    next: u64,
    calls: HashMap<u64, oneshot::Sender<CommandAnswer>>,
    has_ended: bool,
}

/// `{"id": 1, "allowed": true, "remaining": 4, "retry_after": 1.5}`, the wait in seconds.
#[derive(Debug, Deserialize)]
struct CommandAnswer {
    id: u64,
    allowed: bool,
    #[serde(default)]
    remaining: Option<u64>,
    #[serde(default)]
    retry_after: Option<f64>,
}

impl CommandPipe {
    pub(super) fn start(command: &str) -> Result<Self, AdapterError> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(AdapterError::answer("the command has no standard input or output"));
        };
        let waiting = Arc::<Mutex<WaitingCalls>>::default();
        tokio::spawn(read_answers(output, Arc::clone(&waiting)));
        let input = Arc::new(tokio::sync::Mutex::new(input));
        Ok(Self { input, waiting, _child: Arc::new(child) })
    }

    pub(super) async fn call(&self, key: &str, cost: u64) -> Result<CallAnswer, AdapterError> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.has_ended {
                return Err(AdapterError::answer("the command has ended"));
            }
            waiting.next += 1;
            let id = waiting.next;
            waiting.calls.insert(id, sender);
            id
        };
        let mut line = serde_json::json!({"id": id, "key": key, "cost": cost}).to_string();
        line.push('\n');
        let mut input = self.input.lock().await;
        input.write_all(line.as_bytes()).await?;
        input.flush().await?;
        drop(input);
        let answer = answer
            .await
            .map_err(|_| AdapterError::answer("the command ended without an answer"))?;
        let wait = answer.retry_after.filter(|_| !answer.allowed);
        Ok(CallAnswer {
            allowed: answer.allowed,
            remaining: answer.remaining,
            retry_after: wait.and_then(|wait| StatedWait::of(wait, 1_000_000)),
        })
    }
}

/// Hands each answer to its call. Lines that are not answers are passed on to our standard error.
async fn read_answers(output: ChildStdout, waiting: Arc<Mutex<WaitingCalls>>) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(answer) = serde_json::from_str::<CommandAnswer>(&line) else {
            eprintln!("not an answer: {line}");
            continue;
        };
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = waiting.calls.remove(&answer.id) {
            let _ = sender.send(answer);
        }
    }
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.has_ended = true;
    waiting.calls.clear();
}
