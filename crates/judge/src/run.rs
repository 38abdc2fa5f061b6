//! Calls a real limiter, and records what it answers.

use std::time::Duration;

use tidegate_core::SplitMix;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::adapter::{AdapterError, LimiterConnection, LimiterTarget, StartedTarget};
use crate::history::{CallHistory, CallVerdict, JudgedCall};
use crate::rule::JudgedRule;
use crate::wall_clock::WallClock;
use crate::workload::{PlannedCall, WorkloadPlan};

/// A workload for a real limiter.
#[derive(Clone, Debug)]
pub struct LimiterRun {
    /// What to ask. Its start is the moment at which the run begins.
    pub plan: WorkloadPlan,
    /// How many calls can be in flight.
    pub callers: u32,
    /// How long to wait for an answer.
    pub patience: Duration,
    /// What all keys begin with. It should be new, since the judge takes the keys for new.
    pub key_prefix: String,
}

impl LimiterRun {
    /// Calls the limiter, and returns what it answered. The targets are instances of one limiter.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if a target cannot be reached at all. Calls that fail later are recorded.
    pub async fn record(
        &self,
        targets: &[LimiterTarget],
        rule: &JudgedRule,
    ) -> Result<CallHistory, AdapterError> {
        let targets =
            targets.iter().map(LimiterTarget::start).collect::<Result<Vec<_>, AdapterError>>()?;
        for target in &targets {
            drop(target.connect().await?);
        }
        let clock = WallClock::start();
        let plan = WorkloadPlan {
            instances: u32::try_from(targets.len()).unwrap_or(1).max(1),
            start: clock.now() + HEAD_START,
            ..self.plan
        };
        let callers = self.callers.max(1) as usize;
        let mut shares: Vec<Vec<PlannedCall>> = vec![Vec::new(); callers];
        for (share, call) in (0..callers).cycle().zip(plan.calls(rule)) {
            shares.get_mut(share).into_iter().for_each(|calls| calls.push(call));
        }
        let mut tasks = JoinSet::new();
        for share in shares {
            tasks.spawn(self.caller(&targets, clock).play(share, plan.start));
        }
        tasks.spawn(self.caller(&targets, clock).play_patiently(plan));
        let mut history = CallHistory::default();
        while let Some(done) = tasks.join_next().await {
            let done = done.map_err(|error| AdapterError::answer(error.to_string()))?;
            done.into_iter().for_each(|(key, call)| history.push(&key, call));
        }
        Ok(history)
    }

    fn caller(&self, targets: &[StartedTarget], clock: WallClock) -> LimiterCaller {
        LimiterCaller {
            connections: targets.iter().map(|_| None).collect(),
            targets: targets.to_vec(),
            clock,
            patience: self.patience,
            key_prefix: self.key_prefix.clone(),
            calls: Vec::new(),
        }
    }
}

/// One caller, with a connection to each target.
struct LimiterCaller {
    targets: Vec<StartedTarget>,
    connections: Vec<Option<LimiterConnection>>,
    clock: WallClock,
    patience: Duration,
    key_prefix: String,
    calls: Vec<(String, JudgedCall)>,
}

impl LimiterCaller {
    /// Makes calls at their times, or as soon as the one before is answered.
    async fn play(mut self, calls: Vec<PlannedCall>, start: i64) -> Vec<(String, JudgedCall)> {
        for instance in 0..self.targets.len() {
            let _ = self.connect(instance).await;
        }
        for call in calls {
            self.sleep_until(start + call.at).await;
            let key = format!("{}{}", self.key_prefix, call.key);
            self.call(key, call.cost, call.instance).await;
        }
        self.calls
    }

    /// Takes until it is denied, waits as long as it is told to, and tries the same again.
    async fn play_patiently(mut self, plan: WorkloadPlan) -> Vec<(String, JudgedCall)> {
        let key = format!("{}patient", self.key_prefix);
        let end = plan.start + i64::try_from(plan.span.as_micros()).unwrap_or(i64::MAX);
        let mut random = SplitMix::new(plan.seed);
        self.sleep_until(plan.start).await;
        let mut cost = 1;
        while self.clock.now() < end {
            let instance = u32::try_from(random.bits() % u64::from(plan.instances)).unwrap_or(0);
            self.call(key.clone(), cost, instance).await;
            let last = self.calls.last().map(|(_, call)| call);
            let wait = last.and_then(|call| call.retry_after).map(|wait| wait.micros);
            match last.map(|call| &call.verdict) {
                Some(CallVerdict::Admitted) => cost = 1 + random.bits() % plan.most_cost.max(1),
                // Denied without a wait: another cost may pass.
                Some(CallVerdict::Denied) if wait.is_none() => cost = 1,
                _ => {}
            }
            let pause = wait.unwrap_or(PAUSE).max(MOMENT);
            let is_admitted = last.is_some_and(|call| call.verdict == CallVerdict::Admitted);
            let until = self.clock.now() + if is_admitted { MOMENT } else { pause };
            if until >= end {
                break;
            }
            self.sleep_until(until).await;
        }
        self.calls
    }

    async fn sleep_until(&self, at: i64) {
        let wait = at.saturating_sub(self.clock.now());
        if let Some(wait) = u64::try_from(wait).ok().filter(|wait| *wait > 0) {
            sleep(Duration::from_micros(wait)).await;
        }
    }

    async fn connect(&mut self, instance: usize) -> Result<(), AdapterError> {
        let (Some(target), Some(slot)) =
            (self.targets.get(instance), self.connections.get_mut(instance))
        else {
            return Err(AdapterError::answer("no such instance"));
        };
        if !slot.as_ref().is_some_and(LimiterConnection::is_open) {
            *slot = None;
            *slot = Some(target.connect().await?);
        }
        Ok(())
    }

    async fn call(&mut self, key: String, cost: u64, instance: u32) {
        let index = instance as usize;
        let connected = timeout(self.patience, self.connect(index)).await;
        let sent = self.clock.now();
        let answer = match (connected, self.connections.get_mut(index)) {
            (Ok(Ok(())), Some(Some(connection))) => {
                match timeout(self.patience, connection.call(&key, cost)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(AdapterError::answer("no answer in time")),
                }
            }
            (Ok(Err(error)), _) => Err(error),
            _ => Err(AdapterError::answer("no connection in time")),
        };
        let received = self.clock.now();
        let mut call = JudgedCall {
            sent,
            received,
            cost,
            verdict: CallVerdict::Denied,
            remaining: None,
            retry_after: None,
            instance,
        };
        match answer {
            Ok(answer) => {
                if answer.allowed {
                    call.verdict = CallVerdict::Admitted;
                }
                (call.remaining, call.retry_after) = (answer.remaining, answer.retry_after);
            }
            Err(error) => {
                call.verdict = CallVerdict::Failed(error.to_string().into());
                // What comes next on this connection may belong to this call.
                self.connections.get_mut(index).into_iter().for_each(|slot| *slot = None);
            }
        }
        self.calls.push((key, call));
    }
}

/// Time for all callers to connect, in microseconds.
const HEAD_START: i64 = 100_000;
/// Between two calls of the patient caller: long enough to tell them apart.
const MOMENT: i64 = 3_000;
/// After a denial that states no wait.
const PAUSE: i64 = 50_000;
