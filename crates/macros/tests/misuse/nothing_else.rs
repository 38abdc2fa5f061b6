//! One mistake is one error: the function, its callers and what it uses compile as before.
#![deny(unused)]

use std::collections::BTreeMap;

use tidegate::{Denied, rate_limit};

#[rate_limit("5/second")]
#[rate_limit(name = "a", quota = "5/second", scope = "user")]
fn limited(map: BTreeMap<u8, u8>) -> Result<usize, Denied> {
    Ok(map.len())
}

#[rate_limit(name = "b", quota = "5/second", scope = "user")]
fn quoted() -> Result<usize, Denied> {
    limited(BTreeMap::new())
}

fn main() {
    let _ = quoted();
}
