//! Generates requests, and spells parts of them differently.

mod credentials;
mod fields;
mod path;
mod query;
mod target;

use fastrand::Rng;

use crate::request::Request;

/// Generates spellings; the same seed gives the same requests.
pub(crate) struct Speller {
    dice: Rng,
    words: Words,
}

/// The parts of requests that depend on the run.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    /// The address of the witness, which a client can use as the host.
    pub(crate) service: String,
    /// Tokens of two users.
    pub(crate) tokens: [String; 2],
}

impl Words {
    /// A line of the corpus with the values of this run filled in.
    pub(crate) fn fill_in(&self, line: &str) -> String {
        self.names()
            .into_iter()
            .fold(line.to_owned(), |line, (name, word)| line.replace(name, word))
    }

    /// The reverse: a line for the corpus.
    pub(crate) fn take_out(&self, line: &str) -> String {
        self.names()
            .into_iter()
            .fold(line.to_owned(), |line, (name, word)| line.replace(word, name))
    }

    fn names(&self) -> [(&str, &str); 3] {
        let [first, second] = &self.tokens;
        [("{service}", &self.service), ("{token}", first), ("{other-token}", second)]
    }
}

type Respelling = fn(&mut Rng, &mut Request);

const RESPELLINGS: &[Respelling] = &[
    path::respell,
    path::respell,
    path::respell,
    target::respell_method,
    target::respell_host,
    target::add_hint,
    fields::respell_name,
    fields::respell_value,
    fields::repeat,
    fields::name_in_connection,
    fields::move_behind_the_body,
    query::respell,
    query::respell,
    credentials::respell_bearer,
    credentials::respell_cookie,
    credentials::respell_cookie,
];

impl Speller {
    pub(crate) fn new(seed: u64, words: Words) -> Self {
        Self { dice: Rng::with_seed(seed), words }
    }

    /// Requests that contain every value once in its plain spelling. All others are compared with these.
    pub(crate) fn plain(&self) -> Vec<Request> {
        let get = |target: &str| Request::new("GET", target, HOSTS[0]);
        let mut requests: Vec<_> = PATHS.iter().map(|path| get(path)).collect();
        requests.extend(METHODS.iter().map(|method| Request::new(method, "/login", HOSTS[0])));
        requests.extend(HOSTS.iter().map(|host| Request::new("GET", "/login", host)));
        requests.push(Request::new("GET", "/login", &self.words.service));
        requests.extend(USERS.iter().map(|user| get(&format!("/login?user={user}"))));
        requests.extend(KEYS.iter().map(|key| get("/login").with("x-api-key", key)));
        requests.extend(SESSIONS.iter().map(|sid| get("/login").with("cookie", &cookie(sid))));
        for token in &self.words.tokens {
            requests.push(get("/login").with("authorization", &format!("Bearer {token}")));
        }
        requests
    }

    /// A request in which one to three parts are spelled differently.
    pub(crate) fn spelling(&mut self) -> Request {
        let mut request = self.anything();
        for _ in 0..self.dice.u8(1..=3) {
            let respell = pick(&mut self.dice, RESPELLINGS);
            respell(&mut self.dice, &mut request);
        }
        request
    }

    /// A request in its plain spelling.
    fn anything(&mut self) -> Request {
        let dice = &mut self.dice;
        let host = if dice.u8(..) < 32 { &self.words.service } else { pick(dice, HOSTS) };
        let mut target = pick(dice, PATHS).to_string();
        if dice.bool() {
            target = format!("{target}?user={}", pick(dice, USERS));
        }
        let mut request = Request::new(pick(dice, METHODS), &target, host);
        if dice.bool() {
            request = request.with("x-api-key", pick(dice, KEYS));
        }
        if dice.bool() {
            request = request.with("cookie", &cookie(pick(dice, SESSIONS)));
        }
        if dice.u8(..) < 64 {
            let token = &self.words.tokens[dice.usize(..2)];
            request = request.with("authorization", &format!("Bearer {token}"));
        }
        request
    }
}

fn cookie(session: &str) -> String {
    format!("theme=dark; sid={session}; lang=en")
}

fn pick<T: Copy>(dice: &mut Rng, choices: &[T]) -> T {
    choices[dice.usize(..choices.len())]
}

/// A random position in a text.
fn place(dice: &mut Rng, text: &[u8]) -> usize {
    dice.usize(..text.len().max(1))
}

/// Replaces `range`.
fn replace(text: &mut Vec<u8>, range: std::ops::Range<usize>, by: &[u8]) {
    let end = range.end.min(text.len());
    text.splice(range.start.min(end)..end, by.iter().copied());
}

/// A byte as an escape, in either letter case.
fn escaped(dice: &mut Rng, byte: u8) -> Vec<u8> {
    let text = if dice.bool() { format!("%{byte:02x}") } else { format!("%{byte:02X}") };
    text.into_bytes()
}

/// The other case of a letter.
fn other_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { byte }
}

const METHODS: &[&str] = &["GET", "POST"];
const HOSTS: &[&str] = &["api.test", "www.test"];
const KEYS: &[&str] = &["alice", "bob"];
const USERS: &[&str] = &["alice", "bob", "a+b"];
const SESSIONS: &[&str] = &["abc", "xyz"];
const PATHS: &[&str] = &[
    "/login",
    "/v1/mail:send",
    "/users/@me",
    "/users/alice",
    "/users/a%20b",
    "/users/%C3%A9",
    "/admin/reports/all",
];
