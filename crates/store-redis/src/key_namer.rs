//! Names the keys of charges: by our own scheme, or in another limiter's format.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_core::algorithm::{Algorithm, FixedWindow, SlidingLog};
use tidegate_core::{Charge, ChargeNames, Cost, Fingerprint, Limit, NameScheme, Quota, Rule, Span};
use tidegate_store::{StoreError, StoreErrorKind};

use crate::batch::{RedisCharge, RedisCharges, RedisRequest};
use crate::key_name::KeyName;
use crate::shared_keys::SharedKey;
use crate::{KeyFormat, KeyFormatError, RedisStoreBuilder, rule};

/// Names the keys of charges.
#[derive(Debug)]
pub(crate) struct KeyNamer {
    prefix: Vec<u8>,
    secret: [u8; 16],
    /// For charges that bring no template.
    format: Option<Arc<KeyFormat>>,
    /// The parsed templates of charges that bring one.
    given: Mutex<HashMap<Box<str>, Arc<KeyFormat>>>,
    on_a_cluster: bool,
    /// Whether every limit is decided here, as if no script knew its algorithm.
    without_twins: bool,
}

/// The most templates in the cache, which is cleared beyond that. A configuration has a few.
const MOST_GIVEN: usize = 1_000;

impl KeyNamer {
    pub(crate) fn new(builder: &RedisStoreBuilder) -> Self {
        Self {
            prefix: builder.prefix.clone().into_bytes(),
            secret: builder.secret,
            format: builder.key_format.clone().map(Arc::new),
            given: Mutex::default(),
            on_a_cluster: builder.is_for_a_cluster(),
            without_twins: builder.without_twins,
        }
    }

    /// Whether a charge's key is named by our own scheme.
    pub(crate) fn is_own_key(&self, charge: &Charge<'_>) -> bool {
        match scheme(charge) {
            NameScheme::StoreDefault => self.format.is_none(),
            NameScheme::Own => true,
            NameScheme::Template(_) => false,
        }
    }

    /// Whether charges that bring no template get another limiter's names.
    pub(crate) const fn has_format(&self) -> bool {
        self.format.is_some()
    }

    /// Whether any counter is known to be shared with another limiter.
    pub(crate) fn has_shared_keys(&self) -> bool {
        self.format.is_some() || !self.given.lock().is_empty()
    }

    /// How another limiter names a charge's key; `None` if we name it.
    fn format_of(&self, charge: &Charge<'_>) -> Result<Option<Arc<KeyFormat>>, StoreError> {
        match scheme(charge) {
            NameScheme::StoreDefault => Ok(self.format.clone()),
            NameScheme::Own => Ok(None),
            NameScheme::Template(template) => self.read(template).map(Some),
        }
    }

    /// Parses a template, once.
    fn read(&self, template: &str) -> Result<Arc<KeyFormat>, StoreError> {
        let mut given = self.given.lock();
        if let Some(format) = given.get(template) {
            return Ok(Arc::clone(format));
        }
        let format: KeyFormat = template.parse().map_err(refused)?;
        if self.on_a_cluster {
            format.check_cluster().map_err(refused)?;
        }
        if given.len() >= MOST_GIVEN {
            given.clear();
        }
        let format = Arc::new(format);
        given.insert(template.into(), Arc::clone(&format));
        Ok(format)
    }

    /// The key's name, with a `*` for the window that only Redis knows.
    pub(crate) fn key_name(&self, charge: &Charge<'_>) -> KeyName {
        match self.format_of(charge).ok().flatten() {
            None => KeyName::new(&self.prefix, charge),
            Some(format) => {
                let window = format.window().map_or("", |_| "*");
                format.name(charge, &self.secret).around(window)
            }
        }
    }

    fn own_item(&self, charge: &Charge<'_>) -> RedisCharge {
        let item = RedisCharge::new(&self.prefix, charge);
        RedisCharge { is_computed: item.is_computed || self.without_twins, ..item }
    }

    /// Whether a charge to one of our own keys is decided here.
    pub(crate) const fn is_computed(&self, charge: &Charge<'_>) -> bool {
        self.without_twins || !rule::has_twin(&charge.rule().limit)
    }

    /// A charge to send; an error if the format cannot store such a limit.
    pub(crate) fn item(&self, charge: &Charge<'_>) -> Result<RedisCharge, StoreError> {
        let item = self.own_item(charge);
        let Some(format) = self.format_of(charge)? else { return Ok(item) };
        let limit = &charge.rule().limit;
        format.check(limit).map_err(refused)?;
        let name = format.name(charge, &self.secret);
        let window = limit.quota().window();
        Ok(RedisCharge {
            key: name.around(""),
            // The other limiter's windows begin at the epoch.
            phase: Span::ZERO,
            is_computed: false,
            shared_key: Some(Box::new(SharedKey {
                unit: format.window().map_or(Span::ZERO, |name| name.unit(window)),
                buffer: format.buffer(),
                name,
            })),
            ..item
        })
    }

    /// Charges to decide together.
    pub(crate) fn items(&self, charges: &[Charge<'_>]) -> Result<RedisCharges, StoreError> {
        if charges.iter().all(|charge| self.is_own_key(charge)) {
            return Ok(charges.iter().map(|charge| self.own_item(charge)).collect());
        }
        let items =
            charges.iter().map(|charge| self.item(charge)).collect::<Result<RedisCharges, _>>()?;
        match items.iter().any(|item| item.shared_key.is_some()) {
            true => refuse_shared(&items).map(|()| items),
            false => Ok(items),
        }
    }

    /// A request that affects no client, in the slot of the counters of `subject`, to see whether Redis
    /// decides at all. It writes, since a Redis that can only be read does not decide.
    pub(crate) fn probe(&self, subject: Fingerprint) -> Option<RedisRequest> {
        let format = self.format_of_probe();
        let limit = probe_limit(format.as_deref())?;
        let id = Fingerprint::new(0, 0);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        // The tag is made from the lower half.
        let nobody = Fingerprint::new(0, subject.low());
        let names = match format {
            Some(format) => ChargeNames::new(PROBE, PROBE).in_template(format.to_string()),
            None => ChargeNames::own().clone(),
        };
        let item = self.item(&Charge::new(nobody, Cost::ONE, &rule).with_names(&names)).ok()?;
        Some(RedisRequest::Settle(std::iter::once(item).collect()))
    }

    /// A format that is in use, if any is: the Redis user may have no access to other names.
    fn format_of_probe(&self) -> Option<Arc<KeyFormat>> {
        self.format.clone().or_else(|| self.given.lock().values().next().cloned())
    }
}

/// How a charge's key is to be named.
fn scheme<'a>(charge: &Charge<'a>) -> &'a NameScheme {
    charge.names().map_or(&NameScheme::StoreDefault, |names| &names.scheme)
}

fn probe_limit(format: Option<&KeyFormat>) -> Option<Limit> {
    let quota: Quota = "100000/second".parse().ok()?;
    Some(match format.map(KeyFormat::window) {
        None | Some(Some(_)) => FixedWindow::from_quota(&quota).ok()?.into(),
        Some(None) => SlidingLog::from_quota(&quota).ok()?.into(),
    })
}

/// Two limits must not count in the same key: each would see the other's requests.
fn refuse_shared(items: &RedisCharges) -> Result<(), StoreError> {
    let named: Vec<(&RedisCharge, KeyName)> =
        items.iter().map(|item| (item, whole_name(item))).collect();
    let is_shared = |(at, (item, name)): &(usize, &(&RedisCharge, KeyName))| {
        let mut later = named.iter().skip(at + 1);
        later.any(|(other, same)| name == same && item.counter != other.counter)
    };
    match named.iter().enumerate().find(is_shared) {
        None => Ok(()),
        Some((_, (one, _))) => Err(StoreError::new(
            StoreErrorKind::Misconfigured,
            format!(
                "two limits of one request share the key {:?}; expected {{limit}} in the \
                 key_format, and a name for each limit",
                one.key
            ),
        )),
    }
}

/// The name with a mark in place of the window's number: a name with a number differs from the same
/// name without one.
fn whole_name(item: &RedisCharge) -> KeyName {
    match &item.shared_key {
        Some(shared_key) if shared_key.unit > Span::ZERO => shared_key.name.around("\0"),
        _ => item.key.clone(),
    }
}

fn refused(error: KeyFormatError) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, error.to_string())
}

/// The entity and the limit name of probes.
const PROBE: &str = "tidegate-probe";
