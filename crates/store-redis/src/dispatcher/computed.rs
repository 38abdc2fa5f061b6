//! Sends calls whose requests are decided here, as often as it takes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Dispatcher, is_server_failure, now};
use crate::batch::RedisAnswer;
use crate::batch_call::{BatchCall, unexpected_shape};
use crate::computed_call::{ComputedCall, MAX_ROUNDS, too_late};
use crate::link::ScriptCall;
use crate::script::{COMPARE_AND_SET, COMPARE_AND_SET_AT};

impl Dispatcher {
    /// Decides requests whose limits have no twin: reads their states, lets `core` decide, and stores
    /// the result, again and again until nobody else changed the states meanwhile.
    pub(super) async fn compute(
        self: &Arc<Self>,
        lane: usize,
        batch_call: &BatchCall,
    ) -> Vec<RedisAnswer> {
        let (slot, deadline) = (self.slot_of_call(batch_call), self.deadline.get());
        let began = now();
        let mut computed = ComputedCall::new(batch_call);
        loop {
            let sent = now();
            let call = self.computed_call(&computed);
            let reply = match self.link.run(slot, lane, &call).await {
                Ok(reply) => reply,
                Err(failure)
                    if failure.keys_apart
                        && computed.is_untouched()
                        && batch_call.groups().len() > 1 =>
                {
                    return self.send_in_groups(lane, batch_call).await;
                }
                Err(failure) => {
                    if let Some(request) =
                        batch_call.first().filter(|_| is_server_failure(&failure))
                    {
                        self.record_failure(self.slot_of(request), &failure);
                    }
                    return computed.fail_open(&failure.into());
                }
            };
            self.breaker(slot).record_success(sent + deadline);
            if computed.record_reply(&reply).is_none() {
                return computed.fail_open(&unexpected_shape().with_outcome(true));
            }
            if computed.is_done() {
                return computed.into_answers();
            }
            let rounds = computed.rounds();
            // Another repetition would end after the callers have stopped waiting.
            let repetition = if rounds > 1 { sent.elapsed() } else { Duration::ZERO };
            if rounds > MAX_ROUNDS || began.elapsed() + repetition >= deadline {
                return computed.fail_open(&too_late(rounds));
            }
        }
    }

    fn computed_call(&self, computed: &ComputedCall<'_>) -> ScriptCall {
        match &self.manual_clock {
            None => computed.script_call(&COMPARE_AND_SET),
            Some(clock) => {
                let mut call = computed.script_call(&COMPARE_AND_SET_AT);
                call.number(clock.load(Ordering::SeqCst) as i64);
                call
            }
        }
        .marked()
    }
}
