//! The table of supported commands, and `COMMAND`, which describes them to clients.

use super::reply::RespReplies;
use super::request::{quoted, split};

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RespVerb {
    Throttle,
    Check,
    Peek,
    Refund,
    ResetKey,
    Ping,
    Echo,
    Hello,
    Auth,
    Select,
    Client,
    Command,
    Info,
    Config,
    Reset,
    Quit,
}

impl RespVerb {
    /// Whether a client can send the command before it is authenticated.
    pub(super) const fn is_allowed_before_auth(self) -> bool {
        matches!(self, Self::Hello | Self::Auth | Self::Reset | Self::Quit)
    }
}

/// The specification of a supported command.
#[derive(Debug)]
pub(super) struct RespCommandSpec {
    pub(super) name: &'static str,
    pub(super) verb: RespVerb,
    /// The fewest and the most words, including the name.
    words: (usize, usize),
    /// The index of the word that is a key; 0 for none.
    key: u8,
    arguments: &'static str,
    summary: &'static str,
}

impl RespCommandSpec {
    pub(super) const fn accepts(&self, words: usize) -> bool {
        self.words.0 <= words && words <= self.words.1
    }

    #[cold]
    pub(super) fn wrong_number(&self) -> String {
        let lower = self.name.to_ascii_lowercase();
        format!(
            "ERR wrong number of arguments for '{lower}' command: expected {}{}",
            self.name, self.arguments
        )
    }

    /// The number of words as Redis reports it: negative for "or more".
    fn arity(&self) -> i64 {
        let (least, most) = self.words;
        let least = i64::try_from(least).unwrap_or(i64::MAX);
        if self.words.0 == most { least } else { -least }
    }

    fn flags(&self) -> &'static [&'static str] {
        match self.verb {
            RespVerb::Throttle | RespVerb::Check | RespVerb::Refund | RespVerb::ResetKey => {
                &["write", "fast"]
            }
            RespVerb::Peek => &["readonly", "fast"],
            verb if verb.is_allowed_before_auth() => &["noscript", "fast", "no_auth"],
            _ => &["fast"],
        }
    }
}

/// The command with this name, in any case.
pub(super) fn find(name: &[u8]) -> Option<&'static RespCommandSpec> {
    COMMANDS.iter().find(|spec| spec.name.as_bytes().eq_ignore_ascii_case(name))
}

/// `COMMAND`, `COMMAND COUNT`, `LIST`, `INFO` and `DOCS`.
pub(super) fn describe(arguments: &[&[u8]], replies: &mut RespReplies) {
    let (subcommand, names) = split(arguments);
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    match arguments {
        [] => describe_all(replies),
        [_] if is("INFO") => describe_all(replies),
        [_] if is("COUNT") => replies.count(COMMANDS.len() as u64),
        [_] if is("LIST") => {
            replies.list(COMMANDS.len());
            COMMANDS.iter().for_each(|spec| name(spec, replies));
        }
        [_, ..] if is("INFO") => {
            replies.list(names.len());
            for name in names {
                match find(name) {
                    Some(spec) => describe_one(spec, replies),
                    None => replies.null(),
                }
            }
        }
        [_, ..] if is("DOCS") => document(names, replies),
        _ => {
            let what = quoted(subcommand);
            replies.error(&format!(
                "ERR unknown subcommand or wrong number of arguments for {what}: expected COMMAND \
                 COUNT, LIST, INFO or DOCS"
            ));
        }
    }
}

fn describe_all(replies: &mut RespReplies) {
    replies.list(COMMANDS.len());
    COMMANDS.iter().for_each(|spec| describe_one(spec, replies));
}

/// Writes name, arity, flags and key positions, and empty lists for categories, tips, key specifications
/// and subcommands.
fn describe_one(spec: &RespCommandSpec, replies: &mut RespReplies) {
    replies.list(10);
    name(spec, replies);
    replies.integer(spec.arity());
    replies.list(spec.flags().len());
    spec.flags().iter().for_each(|flag| replies.status(flag));
    let key = i64::from(spec.key);
    replies.integer(key);
    replies.integer(key);
    replies.integer(i64::from(key > 0));
    (0..4).for_each(|_| replies.list(0));
}

fn document(names: &[&[u8]], replies: &mut RespReplies) {
    let is_wanted = |spec: &&RespCommandSpec| {
        let is_named = |name: &&[u8]| spec.name.as_bytes().eq_ignore_ascii_case(name);
        names.is_empty() || names.iter().any(is_named)
    };
    replies.map(COMMANDS.iter().filter(is_wanted).count());
    for spec in COMMANDS.iter().filter(is_wanted) {
        name(spec, replies);
        replies.map(3);
        for (name, value) in [("summary", spec.summary), ("since", "1.0.0"), ("group", "generic")] {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
    }
}

fn name(spec: &RespCommandSpec, replies: &mut RespReplies) {
    replies.bulk(spec.name.to_ascii_lowercase().as_bytes());
}

const fn spec(
    name: &'static str,
    verb: RespVerb,
    words: (usize, usize),
    key: u8,
    arguments: &'static str,
    summary: &'static str,
) -> RespCommandSpec {
    RespCommandSpec { name, verb, words, key, arguments, summary }
}

const MANY: usize = usize::MAX;

/// The commands whose speed matters come first, because [`find`] searches in order.
#[rustfmt::skip]
static COMMANDS: [RespCommandSpec; 16] = [
    spec("CL.THROTTLE", RespVerb::Throttle, (5, 6), 1, " key max_burst count period [quantity]", "Decides by a token bucket that the command describes"),
    spec("RL.CHECK", RespVerb::Check, (2, MANY), 2, " policy key [cost], or RL.CHECK * name=value ... [COST n]", "Decides by a policy, or by all that apply"),
    spec("RL.PEEK", RespVerb::Peek, (2, MANY), 2, " policy key, or RL.PEEK * name=value ...", "Reports what remains of a key's quota, without counting"),
    spec("RL.REFUND", RespVerb::Refund, (3, MANY), 2, " policy key amount", "Gives back units that were taken and not used"),
    spec("RL.RESET", RespVerb::ResetKey, (2, MANY), 2, " policy key", "Resets a key, which then has its full quota again"),
    spec("PING", RespVerb::Ping, (1, 2), 0, " [message]", "Checks that the server responds"),
    spec("ECHO", RespVerb::Echo, (2, 2), 0, " message", "Returns the message"),
    spec("HELLO", RespVerb::Hello, (1, MANY), 0, " [2|3 [AUTH user password] [SETNAME name]]", "Chooses the version of the protocol"),
    spec("AUTH", RespVerb::Auth, (2, 3), 0, " [user] password", "Authenticates the connection"),
    spec("SELECT", RespVerb::Select, (2, 2), 0, " 0", "Selects the only database"),
    spec("CLIENT", RespVerb::Client, (2, MANY), 0, " subcommand ...", "Names and describes the connection"),
    spec("COMMAND", RespVerb::Command, (1, MANY), 0, " [COUNT|LIST|INFO|DOCS]", "Lists and describes the commands"),
    spec("INFO", RespVerb::Info, (1, MANY), 0, " [section ...]", "Server and client statistics"),
    spec("CONFIG", RespVerb::Config, (2, MANY), 0, " GET name ...", "Returns an empty list, since there are no settings"),
    spec("RESET", RespVerb::Reset, (1, 1), 0, "", "Resets the connection to its initial state"),
    spec("QUIT", RespVerb::Quit, (1, MANY), 0, "", "Closes the connection"),
];
