//! Limits how many wrong passwords and tokens a client can try.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ListenerKind;
use crate::service::log::{LogLevel, LogThrottle};

/// Counts failed logins by client address. An address can fail 20 times in a burst, and then 5 times a
/// second. Beyond that, its passwords and tokens are not even checked.
///
/// A service that keeps retrying an old password stays below this rate, so it does not lock out others
/// at its address. At 5 tries a second, guessing 16 characters is hopeless.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    addresses: Mutex<HashMap<LoginOrigin, Instant>>,
    lines: LogThrottle,
}

/// A listener and a client: an IPv4 address, an IPv6 network, or everybody on a unix socket.
type LoginOrigin = (&'static str, Option<IpAddr>);

impl FailedLogins {
    pub(crate) fn new() -> Self {
        Self { addresses: Mutex::default(), lines: LogThrottle::new() }
    }

    /// How long an address must wait before its next try, if at all.
    pub(crate) fn wait(&self, listener: ListenerKind, address: Option<IpAddr>) -> Option<Duration> {
        self.wait_at(listener, address, Instant::now())
    }

    /// Counts a failure, and logs it unless too many were logged recently.
    pub(crate) fn record_failure(&self, listener: ListenerKind, address: Option<IpAddr>) {
        self.record_failure_at(listener, address, Instant::now());
        let from =
            address.map_or_else(|| "a unix socket".to_owned(), |address| address.to_string());
        let message = format!("wrong password or token from {from} ({})", listener.name());
        let fields = [("listener", listener.name()), ("from", &*from)];
        self.lines.emit(LogLevel::Warn, "login_failed", &message, &fields);
    }

    fn wait_at(
        &self,
        listener: ListenerKind,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Option<Duration> {
        let addresses = self.addresses.lock();
        // The shared entry counts only while the table is full: before that, every address that has
        // failed has an entry of its own.
        let others =
            || addresses.get(&overflow_origin(listener)).filter(|_| addresses.len() >= MOST);
        let until = addresses.get(&origin(listener, address)).or_else(others)?;
        let debt = until.saturating_duration_since(now);
        (debt > BURST).then(|| debt.saturating_sub(BURST))
    }

    fn record_failure_at(&self, listener: ListenerKind, address: Option<IpAddr>, now: Instant) {
        let mut addresses = self.addresses.lock();
        if addresses.len() >= MOST {
            addresses.retain(|_, until| *until > now);
        }
        let mut origin = origin(listener, address);
        if addresses.len() >= MOST && !addresses.contains_key(&origin) {
            origin = overflow_origin(listener);
        }
        let until = addresses.entry(origin).or_insert(now);
        *until = (*until).max(now) + EACH;
    }
}

fn origin(listener: ListenerKind, address: Option<IpAddr>) -> LoginOrigin {
    let address = address.map(|address| match address.to_canonical() {
        // A client with one address of an IPv6 network usually has all of them.
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    });
    (listener.name(), address)
}

/// The entry that a listener's addresses share when the table is full. No client has the unspecified
/// address.
const fn overflow_origin(listener: ListenerKind) -> LoginOrigin {
    (listener.name(), Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

/// Entries in the table.
const MOST: usize = 4_096;
/// The debt that a failure adds.
const EACH: Duration = Duration::from_millis(200);
/// The debt up to which an address can try again: it is exceeded by the 20th failure.
const BURST: Duration = Duration::from_millis(3_900);

#[cfg(test)]
mod tests {
    use super::*;

    const RESP: ListenerKind = ListenerKind::Resp;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn an_address_may_fail_twenty_times_and_then_five_times_a_second() {
        let (logins, mut now) = (FailedLogins::new(), Instant::now());
        let one = address("192.0.2.1");
        let tries = |now: Instant| {
            let may = |_: &i32| logins.wait_at(RESP, one, now).is_none();
            (0..1_000).take_while(may).map(|_| logins.record_failure_at(RESP, one, now)).count()
        };
        assert_eq!(tries(now), 20);
        now += Duration::from_secs(1);
        assert_eq!(tries(now), 5);
        now += Duration::from_secs(60);
        assert_eq!(tries(now), 20);
        assert!(logins.wait_at(RESP, one, now).unwrap() <= EACH);
        assert_eq!(logins.wait_at(RESP, address("192.0.2.2"), now), None);
        assert_eq!(logins.wait_at(ListenerKind::Admin, one, now), None);
    }

    #[test]
    fn a_network_is_one_address_and_there_is_a_bound() {
        let (logins, now) = (FailedLogins::new(), Instant::now());
        for last in 0..21 {
            logins.record_failure_at(RESP, address(&format!("2001:db8::{last:x}")), now);
        }
        assert!(logins.wait_at(RESP, address("2001:db8::ffff"), now).is_some());
        assert!(logins.wait_at(RESP, address("2001:db8:0:1::1"), now).is_none());
        for number in 1..10_000_u32 {
            logins.record_failure_at(RESP, Some(IpAddr::V4(number.into())), now);
        }
        assert!(logins.addresses.lock().len() <= MOST + 1);
        // While the table is full, new addresses share one counter.
        let other = address("198.51.100.1");
        assert!(logins.wait_at(RESP, other, now).is_some());
        assert!(logins.wait_at(ListenerKind::Admin, other, now).is_none(), "another listener");
        logins.addresses.lock().retain(|_, until| *until > now + EACH);
        assert!(logins.wait_at(RESP, other, now).is_none(), "there is room again");
    }
}
