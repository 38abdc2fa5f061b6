//! The shared settings of a single instance.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tidegate_core::{Span, Timestamp};
use tidegate_store::{ManualClock, MemoryStore, SettingEntry, SharedSettings, StoreErrorKind};

/// A store in memory answers immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn entries_are_seen_until_they_expire_or_are_removed() {
    let clock = ManualClock::at(Timestamp::from_secs(1_000));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let empty = now(store.read_settings(None)).unwrap().unwrap();
    assert_eq!((empty.version, empty.list.len()), (0, 0));
    assert_eq!(now(store.read_settings(Some(0))).unwrap(), None);

    now(store.put_setting("a", b"1", Span::from_secs(10))).unwrap();
    now(store.put_setting("b", b"2", Span::from_secs(20))).unwrap();
    now(store.put_setting("a", b"3", Span::from_secs(10))).unwrap();
    clock.advance(Span::from_secs(4));
    let seen = now(store.read_settings(Some(0))).unwrap().unwrap();
    let list: Vec<_> = seen.list.iter().map(|it| (&*it.name, &*it.text, it.left)).collect();
    assert_eq!(list, [("a", &b"3"[..], Span::from_secs(6)), ("b", &b"2"[..], Span::from_secs(16))]);
    assert_eq!(now(store.read_settings(Some(seen.version))).unwrap(), None);

    clock.advance(Span::from_secs(6));
    let later = now(store.read_settings(Some(seen.version))).unwrap().unwrap();
    assert_eq!(later.list.len(), 1, "what is over is another version");
    assert!(now(store.remove_setting("b")).unwrap());
    assert!(!now(store.remove_setting("b")).unwrap());
    assert_eq!(now(store.read_settings(Some(later.version))).unwrap().unwrap().list, []);
}

#[test]
fn shared_settings_are_bounded() {
    let store = MemoryStore::new();
    let hour = Span::from_secs(3_600);
    let refused =
        |name: &str, text: &[u8]| now(store.put_setting(name, text, hour)).unwrap_err().kind();
    assert_eq!(refused("", b""), StoreErrorKind::Full);
    assert_eq!(refused(&"n".repeat(SettingEntry::LONGEST_NAME + 1), b""), StoreErrorKind::Full);
    assert_eq!(refused("n", &[0; SettingEntry::LONGEST_TEXT + 1]), StoreErrorKind::Full);
    for number in 0..SettingEntry::MOST {
        now(store.put_setting(&number.to_string(), b"", hour)).unwrap();
    }
    assert_eq!(refused("one more", b""), StoreErrorKind::Full);
    now(store.put_setting("7", b"again", hour)).unwrap();
}
