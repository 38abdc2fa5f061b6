//! Measures the memory of a key in Redis.

use std::sync::Arc;

use tidegate::{AlgorithmKind, Cost, Limiter, RedisConfig, RedisStore};
use tidegate_testkit::Redis;

use super::wanted;
use crate::figures::Figures;
use crate::table;

const KEYS: u64 = 1_000_000;
const KEYS_WITH_A_LOG: u64 = 100_000;

/// Bytes of `used_memory` per key: a million keys of each algorithm, and logs of ten entries.
pub(super) fn compare(only: &str, figures: &mut Figures) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for kind in wanted(AlgorithmKind::ALL, "memory", only) {
        let bytes = measure(kind, KEYS, 1)?;
        figures.add(format!("{kind}, bytes per key"), "bytes", bytes, []);
        rows.push(vec![kind.name().to_owned(), format!("{bytes:.0}")]);
    }
    for kind in wanted(&[AlgorithmKind::SlidingLog], "10 entries, memory", only) {
        let log = measure(kind, KEYS_WITH_A_LOG, 10)?;
        figures.add(format!("{kind}, 10 entries, bytes per key"), "bytes", log, []);
        rows.push(vec![format!("{kind}, 10 entries"), format!("{log:.0}")]);
    }
    table::print("Bytes a key in Redis", &["".to_owned(), "used_memory".to_owned()], &rows);
    Ok(())
}

fn measure(kind: AlgorithmKind, keys: u64, requests: u64) -> anyhow::Result<f64> {
    let redis = Redis::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let config: RedisConfig = redis.url().parse()?;
        let store = RedisStore::builder(config).deadline(std::time::Duration::from_secs(5)).build();
        let quota = match kind {
            // Slow enough for all keys to exist when they are counted.
            AlgorithmKind::TokenBucket => "10/hour burst 1000",
            _ => "1000/hour",
        };
        let limiter =
            Arc::new(Limiter::builder().limit(quota).algorithm(kind).store(store).build()?);
        // Loads the script and opens the connections before the first key.
        let _ = limiter.check_n(&u64::MAX, Cost::PEEK).await;
        let before = redis.used_memory();
        let fillers: Vec<_> = (0..64)
            .map(|filler| {
                let limiter = limiter.clone();
                tokio::spawn(async move {
                    for key in (filler..keys).step_by(64) {
                        for _ in 0..requests {
                            let _ = limiter.check(&key).await;
                        }
                    }
                })
            })
            .collect();
        for filler in fillers {
            filler.await?;
        }
        Ok((redis.used_memory() - before) as f64 / keys as f64)
    })
}
