//! Policy files of a layer that are followed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic")]

mod support;

use std::fs;
use std::sync::mpsc::channel;

use axum::Router;
use axum::routing::get;
use support::{get_from, statuses};
use tidegate::AnyStore;
use tidegate::tower::RateLimitLayer;
use tidegate_testkit::Scratch;

fn text(limit: &str) -> String {
    format!("policies: [{{ name: a, key: [ip], limits: [{limit}] }}]")
}

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(|| async { "hello" })).layer(layer)
}

#[tokio::test]
async fn a_layer_follows_its_file_as_long_as_it_is_used() {
    let folder = Scratch::new();
    let path = folder.write("limits.yaml", &text("2/day burst 2"));
    let (sender, events) = channel();
    let store = AnyStore::open("memory", "").unwrap();
    let layer = RateLimitLayer::policy_file_in(&path, store).unwrap();
    let app = app(layer.watch_with(move |event| drop(sender.send(event.to_string()))));
    let three = || [(); 3].map(|()| get_from("::1"));
    assert_eq!(statuses(&app, three()).await, [200, 200, 429]);

    fs::write(&path, text("30/day burst 30")).unwrap();
    assert!(events.recv().unwrap().ends_with("limits.yaml: reloaded"));
    assert_eq!(statuses(&app, three()).await, [200; 3]);

    fs::write(&path, text("lots and lots/day")).unwrap();
    assert!(events.recv().unwrap().contains("the old limits stay"));
    assert_eq!(statuses(&app, three()).await, [200; 3]);

    // The last service is gone, and with it the watch.
    drop(app);
    assert!(events.recv().is_err());
}

#[test]
fn a_layer_without_a_file_has_nothing_to_follow() {
    // Says so, and works all the same.
    drop(RateLimitLayer::new("1/day").unwrap().watch());
}
