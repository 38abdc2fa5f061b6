//! Calls of Lua scripts, in the form in which they are sent to Redis.

use redis::{Arg, Cmd, Pipeline};
use tidegate_store::StoreErrorKind;

use super::failure::RedisFailure;
use super::reply::RedisReply;

/// A Lua script, and the hash by which a server knows it once it has run.
#[derive(Debug)]
pub(crate) struct RedisScript {
    sha: String,
    body: String,
}

impl RedisScript {
    pub(crate) fn new(body: impl Into<String>) -> Self {
        let body = body.into();
        let sha = redis::Script::new(&body).get_hash().to_owned();
        Self { sha, body }
    }
}

/// One run of a script: the script with its keys and arguments, encoded once.
#[derive(Clone, Debug)]
pub(crate) struct ScriptCall {
    script: &'static RedisScript,
    /// The call by hash: `EVALSHA`.
    command: Cmd,
    /// A random number that the script repeats at the end of its reply.
    mark: Option<u32>,
}

impl ScriptCall {
    /// A call with these keys, which all belong to one slot, and no arguments yet.
    pub(crate) fn new<K: AsRef<[u8]>>(script: &'static RedisScript, keys: &[K]) -> Self {
        let bytes = 64 + keys.iter().map(|key| key.as_ref().len() + 16).sum::<usize>();
        let mut command = Cmd::with_capacity(3 + 2 * keys.len(), bytes);
        command.arg("EVALSHA").arg(script.sha.as_str()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        Self { script, command, mark: None }
    }

    /// Adds an argument.
    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        self.command.arg(argument.as_ref());
        self
    }

    /// Adds a number as an argument.
    pub(crate) fn number(&mut self, argument: i64) -> &mut Self {
        self.command.arg(argument);
        self
    }

    /// Adds a mark as the last argument, which the script repeats as the last part of its reply.
    /// Replies have no other sign of which call they belong to: if one is lost, each call gets the
    /// reply to the next.
    pub(crate) fn marked(mut self) -> Self {
        let mark = fastrand::u32(..);
        self.number(i64::from(mark));
        Self { mark: Some(mark), ..self }
    }

    /// The reply without its mark. Fails if the reply belongs to another call; whether this call
    /// ran is unknown then.
    pub(super) fn check_mark(&self, reply: RedisReply) -> Result<RedisReply, RedisFailure> {
        let Some(mark) = self.mark else { return Ok(reply) };
        match reply {
            RedisReply::Array(mut parts) if is_mark(parts.last(), mark) => {
                parts.pop();
                Ok(RedisReply::Array(parts))
            }
            _ => Err(RedisFailure::unknown(
                StoreErrorKind::Protocol,
                "the reply belongs to another call",
            )),
        }
    }

    /// The call with the script's hash, for a server that may know it.
    pub(super) const fn by_hash(&self) -> &Cmd {
        &self.command
    }

    /// The call with the script's text, for a server that does not know its hash yet.
    pub(super) fn by_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(self.script.body.as_str());
        for argument in self.command.args_iter().skip(2) {
            if let Arg::Simple(bytes) = argument {
                command.arg(bytes);
            }
        }
        command
    }
}

const fn is_mark(part: Option<&RedisReply>, mark: u32) -> bool {
    matches!(part, Some(RedisReply::Integer(number)) if *number == mark as i64)
}

/// Wraps a command so that a node accepts it while its slot is being migrated there. `ASKING` and
/// the command are one pipeline, so that no other caller's command comes between them.
pub(super) fn asking(command: &Cmd) -> Pipeline {
    let mut both = redis::pipe();
    both.cmd("ASKING");
    both.add_command(command.clone());
    both
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    #[test]
    fn a_call_is_sent_by_hash_or_by_text() {
        static SCRIPT: LazyLock<RedisScript> = LazyLock::new(|| RedisScript::new("return 1"));
        let script = &*SCRIPT;
        assert_eq!(script.sha, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        let mut call = ScriptCall::new(script, &["k1", "k2"]);
        call.arg(b"a\xff").number(-3);
        let hash = call.by_hash().get_packed_command();
        let tail = b"$1\r\n2\r\n$2\r\nk1\r\n$2\r\nk2\r\n$2\r\na\xff\r\n$2\r\n-3\r\n";
        assert_eq!(
            hash,
            [format!("*7\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n", script.sha).as_bytes(), tail].concat()
        );
        let text = call.by_text().get_packed_command();
        assert_eq!(text, [&b"*7\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n"[..], tail].concat());
    }
}
