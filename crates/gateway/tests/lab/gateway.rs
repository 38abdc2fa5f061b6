//! The gateway in front of every witness.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use ring::hmac;
use serde_json::{Value, json};
use tidegate_server::ListenerConfig;
use tidegate_testkit::Scratch;

use crate::lane::{Lane, Run};
use crate::ledger::Ledger;
use crate::spelling::Words;
use crate::support::Front;
use crate::wire::Protocol;
use crate::witness::{Witness, witnesses};

pub(crate) async fn search(run: &Run, protocol: Protocol) {
    let secrets = Scratch::new();
    let keys = secrets.write("secret", SECRET);
    let search = async |witness: &'static Witness| {
        let words = words(witness);
        let ledger = Arc::new(Ledger::default());
        let gateway = format!(
            "{}gateway:\n  upstreams: {{ up: http://{} }}\n  \
               jwt: {{ keys: {}, algorithms: HS256 }}\n{POLICIES}",
            witness.settings(),
            witness.address,
            keys.display()
        );
        let front = Front::on(&gateway, Arc::clone(&ledger), ListenerConfig::default()).await;
        let name = format!("gateway, {protocol:?}, {}", witness.name);
        let (address, sends_trailers) = (front.address, true);
        let lane = Lane { name, address, protocol, ledger, words: words.clone(), sends_trailers };
        (lane.search(run).await, words)
    };
    let searches = tokio::task::block_in_place(witnesses).iter().map(search);
    let (outcomes, words): (Vec<_>, Vec<_>) = join_all(searches).await.into_iter().unzip();
    run.judge(&outcomes, &words);
}

/// The words for requests to this witness.
pub(crate) fn words(witness: &Witness) -> Words {
    Words { service: witness.address.to_string(), tokens: ["alice", "bob"].map(token) }
}

fn token(user: &str) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "sub": user, "exp": 4_102_444_800_u64 });
    let message = format!("{}.{}", encode(&json!({ "alg": "HS256" })), encode(&claims));
    let proof =
        hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(proof))
}

const SECRET: &str = "a secret of at least thirty-two bytes, as it should be";

/// One policy for each clause of the law. No limit is ever reached.
const POLICIES: &str = r#"
policies:
  - { name: route, key: [method, path], limits: [1000000/hour] }
  - { name: login, match: { method: POST, path: /login }, key: [ip], limits: [1000000/hour] }
  - { name: host, key: [host], limits: [1000000/hour] }
  - { name: key, key: [api_key], limits: [1000000/hour] }
  - { name: token, key: ["jwt:sub"], limits: [1000000/hour] }
  - { name: user, key: ["query:user"], limits: [1000000/hour] }
  - { name: session, key: ["cookie:sid"], limits: [1000000/hour] }
"#;
