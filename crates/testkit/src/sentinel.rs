//! A primary, its replicas, and the sentinels that choose among them.

use std::collections::HashMap;
use std::time::Duration;

use crate::setup::{Kind, RedisBuilder};
use crate::wait::{MORE_PATIENCE, happens, wait_until};
use crate::{Proxy, Redis, Reply};

/// Builds a [`Replicated`].
#[derive(Clone, Debug)]
#[must_use]
pub struct ReplicatedBuilder {
    replicas: usize,
    wired: bool,
    server: RedisBuilder,
}

impl ReplicatedBuilder {
    /// Puts a [`Proxy`] in front of each server, also for the sentinels. See [`Replicated::wire`].
    pub fn wired(self) -> Self {
        Self { wired: true, ..self }
    }

    /// How many replicas. Defaults to one.
    pub fn replicas(self, replicas: usize) -> Self {
        Self { replicas, ..self }
    }

    /// A line of `redis.conf` for primary and replicas. See [`RedisBuilder::arg`].
    pub fn arg(self, name: &str, value: &str) -> Self {
        Self { server: self.server.arg(name, value), ..self }
    }

    /// The password of primary and replicas; the sentinels themselves have none.
    pub fn password(self, password: &str) -> Self {
        Self { server: self.server.password(password), ..self }
    }

    /// Starts them all, and waits until they know each other.
    pub fn start(self) -> Replicated {
        let mut replicated =
            Replicated { servers: Vec::new(), wires: Vec::new(), sentinels: Vec::new() };
        for index in 0..=self.replicas {
            let mut server = self.server.clone();
            if index > 0 {
                let source = format!("127.0.0.1 {}", replicated.port_of(0));
                server = server.arg("replicaof", &source);
            }
            if self.wired {
                let (behind, wire) = Proxy::before(server, "replica-announce");
                server = behind;
                replicated.wires.push(wire);
            }
            replicated.servers.push(server.start());
        }
        // A sentinel reads the replicas from the primary when it starts, and rarely after that.
        replicated.replicas().iter().for_each(wait_for_link);
        let sentinel = sentinel_of(replicated.primary(), replicated.port_of(0));
        replicated.sentinels = (0..SENTINELS).map(|_| sentinel.clone().start()).collect();
        replicated.wait_until_stable();
        replicated
    }
}

/// A primary, replicas and three sentinels, any two of which may decide.
///
/// A primary that is silent for 0.7 seconds is replaced. Within four seconds of one failover
/// the sentinels do not start another, unless [ordered to](Self::failover).
#[derive(Debug)]
pub struct Replicated {
    /// The first was the primary at the start.
    servers: Vec<Redis>,
    /// The proxies of the servers, if they are wired.
    wires: Vec<Proxy>,
    sentinels: Vec<Redis>,
}

impl Replicated {
    /// A primary, a replica and three sentinels.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The same with more options.
    pub fn builder() -> ReplicatedBuilder {
        ReplicatedBuilder { replicas: 1, wired: false, server: Redis::builder() }
    }

    /// The server that was the primary at the start.
    pub fn primary(&self) -> &Redis {
        &self.servers[0]
    }

    /// The first server that was a replica at the start.
    pub fn replica(&self) -> &Redis {
        &self.servers[1]
    }

    /// All servers that were replicas at the start.
    pub fn replicas(&self) -> &[Redis] {
        &self.servers[1..]
    }

    /// The proxy through which others reach the server with this index, the first primary being 0.
    ///
    /// # Panics
    ///
    /// If the servers are not [wired](ReplicatedBuilder::wired).
    pub fn wire(&self, index: usize) -> &Proxy {
        &self.wires[index]
    }

    fn port_of(&self, index: usize) -> u16 {
        self.wires.get(index).map_or_else(|| self.servers[index].port(), Proxy::port)
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Where clients find it: `redis+sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/mymaster`.
    /// The servers' password goes before the addresses, as it does for a single server.
    pub fn sentinel_url(&self) -> String {
        let password = self.primary().password();
        let login = password.map_or_else(String::new, |password| format!(":{password}@"));
        let hosts: Vec<_> = self.sentinels.iter().map(|one| one.address().to_string()).collect();
        format!("redis+sentinel://{login}{}/{NAME}", hosts.join(","))
    }

    /// The primary's port, according to the first sentinel that answers.
    ///
    /// # Panics
    ///
    /// If none does.
    pub fn current_primary_port(&self) -> u16 {
        self.sentinels.iter().find_map(primary_port).expect("a sentinel that answers")
    }

    /// The primary, according to the first sentinel that answers.
    pub fn current_primary(&self) -> &Redis {
        let port = self.current_primary_port();
        let index = (0..self.servers.len()).find(|index| self.port_of(*index) == port);
        &self.servers[index.expect("one of our servers")]
    }

    /// Whether every sentinel sends clients to this server.
    pub fn are_agreed_on(&self, server: &Redis) -> bool {
        let index = self.servers.iter().position(|one| one.port() == server.port());
        let port = self.port_of(index.expect("one of our servers"));
        self.sentinels.iter().all(|one| primary_port(one) == Some(port))
    }

    /// Has the sentinels promote a replica, and waits until every server has its new role and every
    /// sentinel knows all roles.
    ///
    /// Every server and sentinel has to be up.
    pub fn failover(&self) {
        let before = self.current_primary_port();
        let promoted = || self.sentinels.iter().all(|one| primary_port(one) != Some(before));
        // On a busy machine the sentinels may abandon a failover; they have done so by then.
        let tried = || {
            self.request_failover();
            happens(Duration::from_secs(6), promoted)
        };
        assert!((0..5).any(|_| tried()), "no replica was promoted");
        self.wait_until_stable();
    }

    /// Has the sentinels begin to promote a replica.
    ///
    /// They refuse while another failover is in progress, or if no replica has been seen lately.
    pub fn request_failover(&self) {
        let accepts = |one: &Redis| is_ok(one, &["SENTINEL", "FAILOVER", NAME]);
        let accepted = || self.sentinels.iter().any(accepts);
        wait_until("sentinels to accept a failover", MORE_PATIENCE, accepted);
    }

    /// Waits until all servers and sentinels know each other, with short intervals for the sentinels.
    fn wait_until_stable(&self) {
        self.set_publish_period("100");
        wait_until("sentinels to know each other", MORE_PATIENCE, || self.is_stable());
        self.set_publish_period(PUBLISH_PERIOD);
    }

    fn set_publish_period(&self, millis: &str) {
        for sentinel in &self.sentinels {
            sentinel.command(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", millis]).or_panic();
        }
    }

    /// Whether every server has the role that the sentinels believe it has.
    fn has_roles(&self) -> bool {
        let port = self.current_primary_port();
        let agreed = self.sentinels.iter().all(|one| primary_port(one) == Some(port));
        agreed
            && self.servers.iter().enumerate().all(|(index, server)| {
                match self.port_of(index) == port {
                    true => server.role().is_some_and(|role| role == "master"),
                    false => is_linked_to(server, port),
                }
            })
    }

    fn is_stable(&self) -> bool {
        self.has_roles() && self.sentinels.iter().all(|one| self.knows_everyone(one))
    }

    fn knows_everyone(&self, sentinel: &Redis) -> bool {
        let primary = ask(sentinel, &["SENTINEL", "MASTER", NAME]);
        let is = |name: &str, value: &str| primary.get(name).is_some_and(|it| it == value);
        is("flags", "master")
            && is("num-slaves", &self.replicas().len().to_string())
            && is("num-other-sentinels", &(SENTINELS - 1).to_string())
            && self.sees_replicas(sentinel)
    }

    /// A sentinel does not promote replicas that it knows of but that have not reported to it.
    fn sees_replicas(&self, sentinel: &Redis) -> bool {
        let reply = sentinel.try_command(&["SENTINEL", "REPLICAS", NAME]);
        let Ok(Reply::Array(Some(replicas))) = reply else { return false };
        replicas
            .iter()
            .map(Reply::fields)
            .all(|replica| replica["flags"] == "slave" && replica["master-link-status"] == "ok")
    }
}

/// The configuration of a sentinel. It keeps what it learns in the same file.
fn sentinel_of(primary: &Redis, port: u16) -> RedisBuilder {
    let option = |name: &str, value: &str| (format!("sentinel {name}"), value.to_owned());
    let mut options = vec![
        option("monitor", &format!("{NAME} 127.0.0.1 {port} 2")),
        option("down-after-milliseconds", &format!("{NAME} {DOWN_AFTER}")),
        option("failover-timeout", &format!("{NAME} 2000")),
        option("parallel-syncs", &format!("{NAME} 1")),
    ];
    options.extend(primary.password().map(|it| option("auth-pass", &format!("{NAME} {it}"))));
    let builder = Redis::builder().kind(Kind::Sentinel);
    let builder = options.iter().fold(builder, |builder, (name, value)| builder.arg(name, value));
    PERIODS
        .iter()
        .fold(builder, |builder, [name, value]| builder.after(&["SENTINEL", "DEBUG", name, value]))
}

fn wait_for_link(replica: &Redis) {
    let up = || replica.info("replication")["master_link_status"] == "up";
    wait_until("a replica to have what its primary has", MORE_PATIENCE, up);
}

fn is_linked_to(replica: &Redis, port: u16) -> bool {
    let info = replica.try_info("replication");
    let is = |name: &str, value: &str| info.get(name).is_some_and(|it| it == value);
    is("role", "slave") && is("master_port", &port.to_string()) && is("master_link_status", "up")
}

fn primary_port(sentinel: &Redis) -> Option<u16> {
    let reply = sentinel.try_command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).ok()?;
    reply.items().get(1)?.text().parse().ok()
}

fn is_ok(server: &Redis, words: &[&str]) -> bool {
    server.try_command(words).is_ok_and(|reply| reply.is_ok())
}

fn ask(server: &Redis, words: &[&str]) -> HashMap<String, String> {
    match server.try_command(words) {
        Ok(reply @ Reply::Array(_)) => reply.fields(),
        _ => HashMap::new(),
    }
}

const NAME: &str = "mymaster";
const SENTINELS: usize = 3;

/// Sentinels look for replicas every ten seconds: too rarely for a test. One that finds itself slow does
/// nothing for 30 seconds; on a busy test machine that happens.
const PERIODS: [[&str; 2]; 4] = [
    ["PUBLISH-PERIOD", PUBLISH_PERIOD],
    ["PING-PERIOD", PING_PERIOD],
    ["INFO-PERIOD", "500"],
    ["TILT-PERIOD", "500"],
];

/// A server that has not answered for this many milliseconds is down.
const DOWN_AFTER: &str = "700";

/// How often they check whether a server answers, in milliseconds. Much more often, and they would
/// not promote any replica: a replica must have reported within five periods, and once the primary is down
/// they request reports only every second. Much less often, and a new primary would be considered
/// dead: its time runs from its promotion, and the first check comes a period later.
const PING_PERIOD: &str = "300";

/// How often they introduce themselves, in milliseconds. They give a replica that reports to be
/// the primary four times that long before they demote it; the one that leads a failover needs a second
/// or more to see that its promotion worked. So it must not be much less.
const PUBLISH_PERIOD: &str = "750";
