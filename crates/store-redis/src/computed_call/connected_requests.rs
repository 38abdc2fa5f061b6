//! Which requests of a call have to be stored together.

use crate::batch::RedisRequest;
use crate::batch_call::BatchCall;

/// Requests that have to be stored together, and their keys.
#[derive(Default)]
pub(super) struct ConnectedRequests<'a> {
    /// Positions of keys.
    pub(super) keys: Vec<usize>,
    /// Requests in their order, with the positions of their answers.
    pub(super) requests: Vec<(usize, &'a RedisRequest)>,
    pub(super) is_settled: bool,
}

/// Divides the requests of a call: two that have a key in common are in the same group.
pub(super) fn connected_requests(call: &BatchCall, keys: usize) -> Vec<ConnectedRequests<'_>> {
    // The first key of each key's group, or a key that leads there.
    let mut first: Vec<usize> = (0..keys).collect();
    for group in call.groups() {
        let items = group.request.items();
        for pair in items.windows(2) {
            let [one, other] = [&pair[0], &pair[1]].map(|item| root(&first, item.key_index));
            first[one.max(other)] = one.min(other);
        }
    }
    let mut groups: Vec<ConnectedRequests<'_>> = Vec::new();
    let mut known = vec![None; keys];
    for key in 0..keys {
        let root = root(&first, key);
        let place = *known[root].get_or_insert_with(|| {
            groups.push(ConnectedRequests::default());
            groups.len() - 1
        });
        groups[place].keys.push(key);
    }
    for (place, request) in call.each_request().enumerate() {
        let key = request.items().first().map(|item| root(&first, item.key_index));
        if let Some(group) = key.and_then(|key| known[key]) {
            groups[group].requests.push((place, request));
        }
    }
    groups
}

fn root(first: &[usize], mut key: usize) -> usize {
    while first[key] != key {
        key = first[key];
    }
    key
}
