//! What counters are called: by our own names, or by those of another limiter.

use tidegate_core::algorithm::{Algorithm, FixedWindow, SlidingLog};
use tidegate_core::{Charge, Cost, Fingerprint, Limit, Quota, Rule, Span};
use tidegate_store::{StoreError, StoreErrorKind};

use crate::batch::{Ask, Item, Items};
use crate::key::KeyName;
use crate::plain::Plain;
use crate::{KeyFormat, KeyFormatError, RedisStoreBuilder};

/// Names counters.
#[derive(Debug)]
pub(crate) struct Naming {
    prefix: Vec<u8>,
    secret: [u8; 16],
    format: Option<KeyFormat>,
}

impl Naming {
    pub(crate) fn new(builder: &RedisStoreBuilder) -> Self {
        Self {
            prefix: builder.prefix.clone().into_bytes(),
            secret: builder.secret,
            format: builder.key_format.clone(),
        }
    }

    /// Whether names are those of another limiter.
    pub(crate) const fn is_plain(&self) -> bool {
        self.format.is_some()
    }

    /// The key's name, with a `*` for the window that only Redis knows.
    pub(crate) fn key_name(&self, charge: &Charge<'_>) -> KeyName {
        match &self.format {
            None => KeyName::new(&self.prefix, charge),
            Some(format) => {
                let window = format.window().map_or("", |_| "*");
                format.name(charge, &self.secret).around(window)
            }
        }
    }

    /// A charge to send; an error when the format cannot keep such a limit.
    pub(crate) fn item(&self, charge: &Charge<'_>) -> Result<Item, StoreError> {
        let item = Item::new(&self.prefix, charge);
        let Some(format) = &self.format else { return Ok(item) };
        let limit = &charge.rule().limit;
        format.check(limit).map_err(refused)?;
        let name = format.name(charge, &self.secret);
        let window = limit.quota().window();
        Ok(Item {
            key: name.around(""),
            // The other limiter's windows begin at the epoch.
            phase: Span::ZERO,
            plain: Some(Box::new(Plain {
                unit: format.window().map_or(Span::ZERO, |name| name.unit(window)),
                buffer: format.buffer(),
                name,
            })),
            ..item
        })
    }

    /// Charges to decide together.
    pub(crate) fn items(&self, charges: &[Charge<'_>]) -> Result<Items, StoreError> {
        let items = charges.iter().map(|charge| self.item(charge)).collect::<Result<Items, _>>()?;
        match self.format {
            Some(_) => refuse_shared(&items).map(|()| items),
            None => Ok(items),
        }
    }

    /// A decision that concerns nobody, next to the counters of `subject`, to see whether Redis
    /// decides at all. It writes, since Redis may be able to do no more than read.
    pub(crate) fn probe(&self, subject: Fingerprint) -> Option<Ask> {
        let limit = self.probe_limit()?;
        let id = Fingerprint::new(0, 0);
        let rule = Rule { id, limit, enforced: true, staggered: false };
        // The tag is made of the lower half.
        let nobody = Fingerprint::new(0, subject.low());
        let charge = Charge::new(nobody, Cost::ONE, &rule).named(PROBE).of_limit(PROBE);
        Some(Ask::Settle(std::iter::once(self.item(&charge).ok()?).collect()))
    }

    fn probe_limit(&self) -> Option<Limit> {
        let quota: Quota = "100000/second".parse().ok()?;
        Some(match self.format.as_ref().map(KeyFormat::window) {
            None | Some(Some(_)) => FixedWindow::from_quota(&quota).ok()?.into(),
            Some(None) => SlidingLog::from_quota(&quota).ok()?.into(),
        })
    }
}

/// Two limits must not count in one key: each would see the other's requests.
fn refuse_shared(items: &Items) -> Result<(), StoreError> {
    let shares = |one: &Item, other: &Item| one.key == other.key && one.counter != other.counter;
    let mut pairs = items
        .iter()
        .enumerate()
        .flat_map(|(i, one)| items.iter().skip(i + 1).map(move |other| (one, other)));
    match pairs.find(|(one, other)| shares(one, other)) {
        None => Ok(()),
        Some((one, _)) => Err(StoreError::new(
            StoreErrorKind::Misconfigured,
            format!(
                "two limits of one request share the key {:?}; expected {{limit}} in the \
                 key_format, and a name for each limit",
                one.key
            ),
        )),
    }
}

fn refused(error: KeyFormatError) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, error.to_string())
}

/// What nobody is called.
const PROBE: &str = "tidegate-probe";
