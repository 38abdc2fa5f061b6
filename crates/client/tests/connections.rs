//! A client with few connections: refusals that arrive while a call waits for a connection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests panic")]

mod support;

use std::convert::Infallible;
use std::time::Duration;

use tidegate_client::{ClientEvent, GiveUpReason, PoliteError, PoliteLayer};
use tokio::time::sleep;
use tower::limit::ConcurrencyLimit;
use tower::util::BoxCloneSyncService;
use tower::{Layer, service_fn};

use support::{Answer, Client, Server, heard, line};

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A client with one connection, on which a response takes a second.
fn one_at_a_time(server: &Server, layer: &PoliteLayer) -> Client {
    let server = server.clone();
    let service = service_fn(move |request| {
        let response = server.answer(request);
        async move {
            sleep(seconds(1)).await;
            Ok::<_, Infallible>(response)
        }
    });
    Client(BoxCloneSyncService::new(layer.layer(ConcurrencyLimit::new(service, 1))))
}

async fn all(client: &Client, calls: u32) -> Vec<Answer> {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..calls {
        let client = client.clone();
        tasks.spawn(async move { client.get().await });
    }
    tasks.join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_connection_learns_of_refusals_of_others() {
    let server = Server::new([line(429, &[("retry-after", "60")]), line(200, &[])]);
    let client = one_at_a_time(&server, &PoliteLayer::new().seed(7));
    let answers = all(&client, 5).await;
    assert!(answers.iter().all(|answer| *answer == Ok(200)), "{answers:?}");
    let times = server.times();
    assert!(times[0] == 0 && times[1..].iter().all(|time| *time >= 61_000), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_a_connection_while_it_waits() {
    let server = Server::new([line(429, &[("retry-after", "60")]), line(200, &[])]);
    let client = one_at_a_time(&server, &PoliteLayer::new().seed(7));
    let others = client.clone();
    let calls = tokio::spawn(async move { all(&others, 5).await });
    sleep(seconds(2)).await;
    assert_eq!(client.get_from("http://b/").await, Ok(200));
    assert_eq!(server.times(), [0, 2_000]);
    assert_eq!(calls.await.unwrap(), [const { Ok(200) }; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_connection_gives_up_when_the_wait_is_too_long() {
    let server = Server::new([line(429, &[("retry-after", "600")]), line(200, &[])]);
    let client = one_at_a_time(&server, &PoliteLayer::new().seed(7));
    let answers = all(&client, 5).await;
    let too_early = |answer: &&Answer| **answer == Err(PoliteError::TooEarly(seconds(600)));
    assert_eq!(answers.iter().filter(too_early).count(), 4, "{answers:?}");
    assert_eq!(server.times(), [0]);
}

/// The first call is refused, and waits for a connection again when the second gets a longer wait.
#[tokio::test(start_paused = true)]
async fn a_retry_that_waits_for_a_connection_is_given_up_as_well() {
    let server = Server::new([line(503, &[]), line(429, &[("retry-after", "600")])]);
    let (layer, events) = heard(PoliteLayer::new().seed(7));
    let client = one_at_a_time(&server, &layer);
    let answers = all(&client, 2).await;
    assert!(answers.contains(&Ok(429)), "{answers:?}");
    assert!(answers.iter().any(|it| matches!(it, Err(PoliteError::TooEarly(_)))), "{answers:?}");
    let gave_up = ClientEvent::GaveUp { attempt: 1, why: GiveUpReason::Wait };
    assert_eq!(events.lock().unwrap().iter().filter(|event| **event == gave_up).count(), 2);
    assert_eq!(server.times().len(), 2);
}
