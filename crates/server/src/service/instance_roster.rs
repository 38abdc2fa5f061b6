//! The roster of instances: each instance registers in the shared store, and reads who else is there.
//!
//! From the roster, an instance learns how many instances share the limits and its own number among
//! them, and so its share of each limit while the store is unavailable. It also warns of mistakes that
//! would otherwise go unnoticed: instances that count apart because their secrets differ, or decide
//! differently because their files do.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{KeyHasher, SettingEntry, SharedSettings, Span, Store, StoreError, Timestamp};
use tokio::time::sleep;

use crate::App;
use crate::service::log::{self, LogLevel};

/// An instance's view of the roster.
#[derive(Debug)]
pub struct InstanceRoster {
    /// The random name of this instance in the roster.
    name: String,
    host: String,
    secret: u16,
    expected: u32,
    /// How many instances share the limits, and the number of this one.
    share: Option<(u32, u32)>,
    /// Since when fewer instances have been seen, and the largest share seen since.
    fewer: Option<(Timestamp, (u32, u32))>,
    excess: DelayedWarning,
    secrets: DelayedWarning,
    plans: DelayedWarning,
}

/// The entry of an instance in the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstanceEntry {
    host: String,
    /// Sixteen bits of the secret's hash: too few to confirm a guess of the secret.
    secret: u16,
    plan: u64,
}

/// The conclusions from reading the roster.
#[derive(Debug, Default, PartialEq, Eq)]
struct RosterFindings {
    /// How many instances share the limits, and the number of this one.
    share: Option<(u32, u32)>,
    warnings: Vec<String>,
}

impl InstanceRoster {
    /// The roster of an instance with this store secret, which expects `expected_nodes` instances.
    pub fn new(secret: [u8; 16], expected_nodes: u32) -> Self {
        Self {
            name: format!("{:?}", KeyHasher::random().fingerprint("instance")),
            host: host(),
            secret: KeyHasher::shared(secret).fingerprint("canary").high() as u16,
            expected: expected_nodes.max(1),
            share: None,
            fewer: None,
            excess: DelayedWarning::after(A_DEPLOY_TAKES),
            secrets: DelayedWarning::after(Span::ZERO),
            plans: DelayedWarning::after(A_DEPLOY_TAKES),
        }
    }

    /// Registers this instance and reads the roster, which sets the share of `app`. Returns new warnings:
    /// each is returned once while its cause lasts.
    pub async fn sign_and_read<S: Store + SharedSettings>(
        &mut self,
        app: &App<S>,
    ) -> Result<Vec<String>, StoreError> {
        let plan = app
            .plan_inputs()
            .lock()
            .source
            .as_ref()
            .map_or(0, |source| KeyHasher::shared([0; 16]).fingerprint(source.text()).high());
        let own = InstanceEntry { host: self.host.clone(), secret: self.secret, plan };
        let text = serde_json::to_vec(&own).unwrap_or_default();
        let registered = app.limiter().store().register_instance(&self.name, &text, LASTS).await;
        // While the store is away no instance can register, so missing ones prove nothing.
        let list = registered.inspect_err(|_| self.fewer = None)?;
        let findings = self.read(&own, &list, app.metrics().now());
        if let Some((nodes, number)) = findings.share {
            app.limiter().set_share(nodes, number);
        }
        Ok(findings.warnings)
    }

    fn read(
        &mut self,
        own: &InstanceEntry,
        list: &[SettingEntry],
        now: Timestamp,
    ) -> RosterFindings {
        let parse = |setting: &'_ SettingEntry| {
            let entry: InstanceEntry = serde_json::from_slice(&setting.text).ok()?;
            Some((setting.name.clone(), entry))
        };
        let all: Vec<(String, InstanceEntry)> = list.iter().filter_map(parse).collect();
        let (ours, strangers): (Vec<_>, Vec<_>) =
            all.iter().partition(|(_, entry)| entry.secret == own.secret);
        let hosts = |entries: &[&(String, InstanceEntry)]| {
            let mut hosts: Vec<&str> = entries.iter().map(|(_, entry)| &*entry.host).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.truncate(MOST_HOSTS);
            hosts.join(", ")
        };
        let count = u32::try_from(ours.len()).unwrap_or(u32::MAX);
        let position = ours.iter().position(|(name, _)| *name == self.name);
        let mut warnings = Vec::new();
        if self.excess.is_due(count > self.expected, now) {
            warnings.push(format!(
                "{count} instances share the limits, but --expected-nodes is {}: expected \
                 --expected-nodes {count}. An instance that starts while the store is unavailable \
                 relies on this number, and would admit too large a share of each limit",
                self.expected
            ));
        }
        if self.secrets.is_due(!strangers.is_empty(), now) {
            warnings.push(format!(
                "another secret is in use at {}, on the same store: instances with different secrets \
                 do not share counters. Expected the same TIDEGATE_SECRET or --secret-file everywhere, \
                 unless that is another deployment",
                hosts(&strangers)
            ));
        }
        let others: Vec<_> = ours.into_iter().filter(|(_, entry)| entry.plan != own.plan).collect();
        if self.plans.is_due(!others.is_empty(), now) {
            warnings.push(format!(
                "another configuration is in use at {}, for more than {A_DEPLOY_TAKES}: expected the \
                 same file on all instances that share counters",
                hosts(&others)
            ));
        }
        let number = position.and_then(|position| u32::try_from(position).ok());
        let share = number.map(|number| self.steady_share((count.max(self.expected), number), now));
        RosterFindings { share, warnings }
    }

    /// Delays a larger share. Instances can be missing only because the store lost the roster, or was
    /// away until their entries expired: they count until they have had the time to register again.
    fn steady_share(&mut self, seen: (u32, u32), now: Timestamp) -> (u32, u32) {
        let Some(share) = self.share.filter(|share| seen.0 < share.0) else {
            (self.share, self.fewer) = (Some(seen), None);
            return seen;
        };
        let (since, most) = self.fewer.unwrap_or((now, seen));
        let most = if seen.0 >= most.0 { seen } else { most };
        if now.since(since) < LASTS {
            self.fewer = Some((since, most));
            return share;
        }
        (self.share, self.fewer) = (Some(most), None);
        most
    }
}

/// A condition that is reported once, after it has lasted for a while.
#[derive(Debug)]
struct DelayedWarning {
    patience: Span,
    since: Option<Timestamp>,
    is_reported: bool,
}

impl DelayedWarning {
    const fn after(patience: Span) -> Self {
        Self { patience, since: None, is_reported: false }
    }

    fn is_due(&mut self, is_wrong: bool, now: Timestamp) -> bool {
        if !is_wrong {
            *self = Self::after(self.patience);
            return false;
        }
        let has_lasted = now.since(*self.since.get_or_insert(now)) >= self.patience;
        has_lasted && !std::mem::replace(&mut self.is_reported, true)
    }
}

impl<S: Store + SharedSettings + 'static> App<S> {
    /// Keeps this instance in the roster forever. `expected_nodes` is the configured number of
    /// instances. Does nothing if the store is not shared with other processes.
    pub async fn follow_instances(self: Arc<Self>, expected_nodes: u32) {
        let Some(secret) = self.limiter().store().profile().shared_secret else { return };
        let mut roster = InstanceRoster::new(secret, expected_nodes);
        loop {
            // A store that does not answer is reported elsewhere, by the limiter.
            for warning in roster.sign_and_read(&self).await.unwrap_or_default() {
                log::emit(LogLevel::Warn, "instances", &warning, &[]);
            }
            sleep(SIGN_EVERY).await;
        }
    }
}

/// The name of this machine.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    match name.trim() {
        "" => "a host without a name".to_owned(),
        name => name.chars().filter(|c| !c.is_control()).take(LONGEST_HOST).collect(),
    }
}

const SIGN_EVERY: Duration = Duration::from_secs(5);
/// An instance can miss a few rounds before its entry expires.
const LASTS: Span = Span::from_secs(20);
/// During a rolling deploy there can be more instances than usual, with different files.
const A_DEPLOY_TAKES: Span = Span::from_secs(120);
const LONGEST_HOST: usize = 64;
/// How many hosts a warning names.
const MOST_HOSTS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(host: &str, secret: u16, plan: u64) -> InstanceEntry {
        InstanceEntry { host: host.to_owned(), secret, plan }
    }

    fn list(entries: &[(&str, &InstanceEntry)]) -> Vec<SettingEntry> {
        let setting = |(name, entry): &(&str, &InstanceEntry)| SettingEntry {
            name: (*name).to_owned(),
            text: serde_json::to_vec(entry).unwrap(),
            left: LASTS,
        };
        entries.iter().map(setting).collect()
    }

    fn roll(expected: u32) -> (InstanceRoster, InstanceEntry) {
        let roll =
            InstanceRoster { name: "b".to_owned(), ..InstanceRoster::new([1; 16], expected) };
        let own = entry("here", roll.secret, 7);
        (roll, own)
    }

    const THEN: Timestamp = Timestamp::from_secs(1_000);
    const LATER: Timestamp = Timestamp::from_secs(1_120);

    #[test]
    fn an_instance_learns_its_number_among_those_with_its_secret() {
        let (mut roll, own) = roll(2);
        let stranger = entry("there", own.secret ^ 1, 7);
        let all = list(&[("a", &own), ("aa", &stranger), ("b", &own), ("c", &own)]);
        assert_eq!(roll.read(&own, &all, THEN).share, Some((3, 1)));
        // At least as many as expected, even if some are missing.
        let alone = list(&[("b", &own)]);
        assert_eq!(self::roll(2).0.read(&own, &alone, THEN).share, Some((2, 0)));
        // Not in the roster, so this instance has no number.
        assert_eq!(roll.read(&own, &list(&[("a", &own)]), THEN).share, None);
    }

    #[test]
    fn others_count_until_they_have_had_the_time_to_sign_again() {
        let (mut roll, own) = roll(1);
        let all = list(&[("a", &own), ("b", &own), ("c", &own)]);
        let (two, alone) = (list(&[("a", &own), ("b", &own)]), list(&[("b", &own)]));
        assert_eq!(roll.read(&own, &all, THEN).share, Some((3, 1)));
        // The store was away for long, and this instance is the first to register again.
        let nearly = LATER + Span::from_secs(19);
        assert_eq!(roll.read(&own, &alone, LATER).share, Some((3, 1)));
        assert_eq!(roll.read(&own, &two, nearly).share, Some((3, 1)));
        // All are back, so the wait starts over.
        assert_eq!(roll.read(&own, &all, nearly).share, Some((3, 1)));
        assert_eq!(roll.read(&own, &two, nearly).share, Some((3, 1)));
        // The most that were seen during the wait.
        assert_eq!(roll.read(&own, &alone, nearly + LASTS).share, Some((2, 1)));
        assert_eq!(roll.read(&own, &alone, nearly + LASTS).share, Some((2, 1)));
        assert_eq!(roll.read(&own, &alone, nearly + LASTS + LASTS).share, Some((1, 0)));
    }

    #[test]
    fn more_than_expected_is_said_once_when_it_has_lasted() {
        let (mut roll, own) = roll(1);
        let all = list(&[("a", &own), ("b", &own), ("c", &own)]);
        assert!(roll.read(&own, &all, THEN).warnings.is_empty());
        let warnings = roll.read(&own, &all, LATER).warnings;
        assert!(warnings[0].contains("3 instances") && warnings[0].contains("--expected-nodes 3"));
        assert!(roll.read(&own, &all, LATER + LASTS).warnings.is_empty());
        // A deploy that ends in time.
        let alone = list(&[("b", &own)]);
        assert!(roll.read(&own, &alone, LATER).warnings.is_empty());
        assert!(roll.read(&own, &all, LATER).warnings.is_empty());
    }

    #[test]
    fn another_secret_is_said_at_once_and_another_file_after_a_while() {
        let (mut roll, own) = roll(9);
        let (stranger, other) = (entry("there", own.secret ^ 1, 9), entry("old", own.secret, 8));
        let all = list(&[("a", &stranger), ("b", &own), ("c", &other)]);
        let warnings = roll.read(&own, &all, THEN).warnings;
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("another secret is in use at there,"), "{warnings:?}");
        let warnings = roll.read(&own, &all, LATER).warnings;
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("another configuration is in use at old,"), "{warnings:?}");
        assert!(roll.read(&own, &all, LATER + LASTS).warnings.is_empty());
    }

    #[test]
    fn what_another_version_writes_is_not_read() {
        let (mut roll, own) = roll(1);
        let mut all = list(&[("b", &own)]);
        all.push(SettingEntry { name: "c".to_owned(), text: b"hello".to_vec(), left: LASTS });
        let findings = roll.read(&own, &all, THEN);
        assert_eq!(findings, RosterFindings { share: Some((1, 0)), warnings: Vec::new() });
    }
}
