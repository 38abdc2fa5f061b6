//! Wrong passwords and tokens: a client can try only so many of them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ListenerKind;
use crate::log::{LogLevel, LogThrottle};

/// Counts failed logins by the address they come from. An address has 20 of them at once, and then 5
/// a second. Beyond that, nobody looks at what it sends.
///
/// A service with an old password that tries again and again stays below that, so it does not lock
/// out others at its address. And 5 tries a second get nowhere with 16 characters.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    addresses: Mutex<HashMap<LoginOrigin, Instant>>,
    lines: LogThrottle,
}

/// A listener and who comes to it: an address, an IPv6 network, or everybody on a unix socket.
type LoginOrigin = (&'static str, Option<IpAddr>);

impl FailedLogins {
    pub(crate) fn new() -> Self {
        Self { addresses: Mutex::default(), lines: LogThrottle::new() }
    }

    /// How long an address has to wait before it may try again, if it has to.
    pub(crate) fn wait(&self, listener: ListenerKind, address: Option<IpAddr>) -> Option<Duration> {
        self.wait_at(listener, address, Instant::now())
    }

    /// Takes note of a failure, and logs it unless there are too many.
    pub(crate) fn record_failure(&self, listener: ListenerKind, address: Option<IpAddr>) {
        self.record_failure_at(listener, address, Instant::now());
        let from = address.map_or_else(|| "a unix socket".to_owned(), |it| it.to_string());
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
        // As long as there is room, an address that is not there has done nothing.
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
        // Whoever has one address of a network has all of it.
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    });
    (listener.name(), address)
}

/// Where a listener counts addresses for which there is no room. Nobody comes from the address that stands
/// for them.
const fn overflow_origin(listener: ListenerKind) -> LoginOrigin {
    (listener.name(), Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
}

const MOST: usize = 4_096;
/// What a failure costs.
const EACH: Duration = Duration::from_millis(200);
/// What an address may owe: 20 failures.
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
        // Addresses for which there is no room share one counter, as long as there is none.
        let other = address("198.51.100.1");
        assert!(logins.wait_at(RESP, other, now).is_some());
        assert!(logins.wait_at(ListenerKind::Admin, other, now).is_none(), "another listener");
        logins.addresses.lock().retain(|_, until| *until > now + EACH);
        assert!(logins.wait_at(RESP, other, now).is_none(), "there is room again");
    }
}
