//! Who else is there: instances sign a list in the store that they share, and read it.
//!
//! An instance learns from it how many they are and which of them it is, and so its part of each limit
//! while the store is away. And it warns of what nobody else would notice: instances that count
//! apart because their secrets differ, or decide differently because their files do.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::{KeyHasher, SettingEntry, SharedSettings, Span, Store, StoreError, Timestamp};
use tokio::time::sleep;

use crate::App;
use crate::log::{self, LogLevel};

/// What an instance knows of the others.
#[derive(Debug)]
pub struct InstanceRoster {
    /// Its name on the list.
    name: String,
    host: String,
    secret: u16,
    expected: u32,
    /// How many share the limits, and which of them this one is.
    share: Option<(u32, u32)>,
    /// Since when fewer have been seen, and the most of these.
    fewer: Option<(Timestamp, (u32, u32))>,
    excess: DelayedWarning,
    secrets: DelayedWarning,
    plans: DelayedWarning,
}

/// What an instance says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct InstanceEntry {
    host: String,
    /// So little of its hash that nobody can tell a good guess by it.
    secret: u16,
    plan: u64,
}

/// What follows from the list.
#[derive(Debug, Default, PartialEq, Eq)]
struct RosterFindings {
    /// How many instances share the limits, and which of them this one is.
    share: Option<(u32, u32)>,
    warnings: Vec<String>,
}

impl InstanceRoster {
    /// Of an instance whose store has this secret, and that was told how many share its limits.
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

    /// Signs the list and reads it: `app` has its part of the limits from then on. Returns what is
    /// wrong, once for each time that it begins to be.
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
        let signed = app.limiter().store().register_instance(&self.name, &text, LASTS).await;
        // Nobody could sign meanwhile.
        let list = signed.inspect_err(|_| self.fewer = None)?;
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
        let readable = |notice: &'_ SettingEntry| {
            let entry: InstanceEntry = serde_json::from_slice(&notice.text).ok()?;
            Some((notice.name.clone(), entry))
        };
        let all: Vec<(String, InstanceEntry)> = list.iter().filter_map(readable).collect();
        let (ours, strangers): (Vec<_>, Vec<_>) =
            all.iter().partition(|(_, entry)| entry.secret == own.secret);
        let hosts = |entries: &[&(String, InstanceEntry)]| {
            let mut hosts: Vec<&str> = entries.iter().map(|(_, it)| &*it.host).collect();
            hosts.sort_unstable();
            hosts.dedup();
            hosts.truncate(MOST_HOSTS);
            hosts.join(", ")
        };
        let count = u32::try_from(ours.len()).unwrap_or(u32::MAX);
        let place = ours.iter().position(|(name, _)| *name == self.name);
        let mut warnings = Vec::new();
        if self.excess.is_due(count > self.expected, now) {
            warnings.push(format!(
                "{count} instances share the limits, and --expected-nodes says {}: expected \
                 --expected-nodes {count}. One that starts while the store is away knows no better, and \
                 enforces too large a part of each limit",
                self.expected
            ));
        }
        if self.secrets.is_due(!strangers.is_empty(), now) {
            warnings.push(format!(
                "another secret is in use at {}, on the same store: instances with different secrets \
                 count apart. Expected the same TIDEGATE_SECRET or --secret-file everywhere, unless it \
                 is another deployment",
                hosts(&strangers)
            ));
        }
        let others: Vec<_> = ours.into_iter().filter(|(_, it)| it.plan != own.plan).collect();
        if self.plans.is_due(!others.is_empty(), now) {
            warnings.push(format!(
                "another configuration is in use at {}, for more than {A_DEPLOY_TAKES}: expected the \
                 same file at all instances that share counters",
                hosts(&others)
            ));
        }
        let number = place.and_then(|place| u32::try_from(place).ok());
        let share = number.map(|number| self.steady_share((count.max(self.expected), number), now));
        RosterFindings { share, warnings }
    }

    /// Others may only be missing because the list was lost, or the store away for longer than they
    /// stay on it: they count until they have had the time to sign again.
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

/// Something that may be wrong. It is said once, when it has lasted.
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

    fn is_due(&mut self, is_so: bool, now: Timestamp) -> bool {
        if !is_so {
            *self = Self::after(self.patience);
            return false;
        }
        let has_lasted = now.since(*self.since.get_or_insert(now)) >= self.patience;
        has_lasted && !std::mem::replace(&mut self.is_reported, true)
    }
}

impl<S: Store + SharedSettings + 'static> App<S> {
    /// Is one of the instances on the list, forever. `expected_nodes` is how many there should be. Does
    /// nothing where no other process sees the counters.
    pub async fn follow_instances(self: Arc<Self>, expected_nodes: u32) {
        let Some(secret) = self.limiter().store().shared_secret() else { return };
        let mut roll = InstanceRoster::new(secret, expected_nodes);
        loop {
            // A store that does not answer is reported by those who need its answers.
            for warning in roll.sign_and_read(&self).await.unwrap_or_default() {
                log::emit(LogLevel::Warn, "instances", &warning, &[]);
            }
            sleep(SIGN_EVERY).await;
        }
    }
}

/// What people call this machine.
fn host() -> String {
    let said = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let said = said.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_default();
    match said.trim() {
        "" => "a host without a name".to_owned(),
        name => name.chars().filter(|it| !it.is_control()).take(LONGEST_HOST).collect(),
    }
}

const SIGN_EVERY: Duration = Duration::from_secs(5);
/// An instance may miss a few rounds before it is taken for gone.
const LASTS: Span = Span::from_secs(20);
/// While instances are replaced one by one, there may be more of them, with different files.
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
        let notice = |(name, entry): &(&str, &InstanceEntry)| SettingEntry {
            name: (*name).to_owned(),
            text: serde_json::to_vec(entry).unwrap(),
            left: LASTS,
        };
        entries.iter().map(notice).collect()
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
        // As many as were expected, even if some are not there.
        let alone = list(&[("b", &own)]);
        assert_eq!(self::roll(2).0.read(&own, &alone, THEN).share, Some((2, 0)));
        // Not on the list, so it has no number.
        assert_eq!(roll.read(&own, &list(&[("a", &own)]), THEN).share, None);
    }

    #[test]
    fn others_count_until_they_have_had_the_time_to_sign_again() {
        let (mut roll, own) = roll(1);
        let all = list(&[("a", &own), ("b", &own), ("c", &own)]);
        let (two, alone) = (list(&[("a", &own), ("b", &own)]), list(&[("b", &own)]));
        assert_eq!(roll.read(&own, &all, THEN).share, Some((3, 1)));
        // The store was away for long, and this one is the first to sign again.
        let nearly = LATER + Span::from_secs(19);
        assert_eq!(roll.read(&own, &alone, LATER).share, Some((3, 1)));
        assert_eq!(roll.read(&own, &two, nearly).share, Some((3, 1)));
        // They are there again, so all the time begins anew.
        assert_eq!(roll.read(&own, &all, nearly).share, Some((3, 1)));
        assert_eq!(roll.read(&own, &two, nearly).share, Some((3, 1)));
        // As many as were seen in all that time.
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
        // A deploy that goes by.
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
