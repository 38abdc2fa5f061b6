//! Amendments: overrides and modes that operators set at run time. They are kept in the store's shared
//! settings, and every instance builds its plan from the file and these amendments.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::config::{AmendedPlan, Amendment, FileProblems, PolicyMode, PolicySource};
use tidegate::{
    Plan, SettingEntry, SettingsSnapshot, SharedSettings, Span, Store, StoreError, Timestamp,
};
use tokio::time::sleep;

use crate::App;
use crate::service::log::{self, LogLevel};

/// An amendment that is in effect, or that does not fit the file.
#[derive(Clone, Debug)]
pub(crate) struct ActiveAmendment {
    pub(crate) amendment: Amendment,
    pub(crate) until: Timestamp,
    /// Why the amendment is not in effect.
    pub(crate) problem: Option<String>,
}

/// The inputs from which the current plan was built.
#[derive(Debug, Default)]
pub(crate) struct PlanInputs {
    /// `None` for a plan that was given without its source text.
    pub(crate) source: Option<PolicySource>,
    pub(crate) amendments: Vec<ActiveAmendment>,
    /// The version of the shared settings that was applied last.
    version: Option<u64>,
}

impl PlanInputs {
    pub(crate) fn of(source: Option<PolicySource>) -> Self {
        Self { source, ..Self::default() }
    }
}

/// An amendment as stored in the shared settings.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AmendmentRecord {
    Override {
        policy: String,
        key: String,
        limits: Vec<String>,
    },
    Mode {
        policy: String,
        mode: String,
    },
    /// Cached denials may be out of date: a counter was reset or refunded.
    Forget,
}

impl AmendmentRecord {
    fn of(amendment: &Amendment) -> Self {
        match amendment {
            Amendment::Override { policy, key, limits } => {
                Self::Override { policy: policy.clone(), key: key.clone(), limits: limits.clone() }
            }
            Amendment::Mode { policy, mode } => {
                Self::Mode { policy: policy.clone(), mode: mode.name().to_owned() }
            }
        }
    }

    fn into_amendment(self) -> Option<Amendment> {
        match self {
            Self::Override { policy, key, limits } => {
                Some(Amendment::Override { policy, key, limits })
            }
            Self::Mode { policy, mode } => {
                let mode = PolicyMode::ALL.iter().find(|known| known.name() == mode)?;
                Some(Amendment::Mode { policy, mode: *mode })
            }
            Self::Forget => None,
        }
    }

    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The name of an amendment in the shared settings: one override per key, one mode per policy. The
/// length keeps the name unambiguous even if the policy or the key contains slashes.
pub(crate) fn amendment_name(amendment: &Amendment) -> String {
    match amendment {
        Amendment::Override { policy, key, .. } => {
            format!("override/{}/{policy}/{key}", policy.len())
        }
        Amendment::Mode { policy, .. } => format!("mode/{policy}"),
    }
}

impl<S: Store> App<S> {
    /// Replaces the configuration and keeps the amendments in effect; or returns all problems of the new
    /// configuration, and changes nothing.
    pub fn reload(&self, source: &PolicySource) -> Result<(), FileProblems> {
        let mut inputs = self.plan_inputs().lock();
        let mut amendments = inputs.amendments.clone();
        let plan = self.build_plan(source, &mut amendments)?;
        self.extensions().prepare(&plan).map_err(|why| FileProblems::of(source, why))?;
        (inputs.source, inputs.amendments) = (Some(source.clone()), amendments);
        self.set_plan(plan);
        Ok(())
    }

    /// Checks whether an amendment fits the file; if not, returns why.
    pub(crate) fn try_amendment(&self, amendment: &Amendment) -> Result<(), String> {
        let inputs = self.plan_inputs().lock();
        let source = inputs.source.as_ref().ok_or(NO_SOURCE)?;
        let name = amendment_name(amendment);
        let others = inputs.amendments.iter().map(|active| &active.amendment);
        let mut all: Vec<Amendment> =
            others.filter(|other| amendment_name(other) != name).cloned().collect();
        all.push(amendment.clone());
        let amended =
            self.limiter().compile(source, &all).map_err(|problems| problems.to_string())?;
        match amended.refused.into_iter().find(|(index, _)| *index + 1 == all.len()) {
            Some((_, problems)) => Err(problems.to_string()),
            None => Ok(()),
        }
    }

    /// Rebuilds the plan with the amendments of a snapshot of the shared settings.
    fn apply_settings(&self, settings: SettingsSnapshot) {
        let mut inputs = self.plan_inputs().lock();
        inputs.version = Some(settings.version);
        let now = self.metrics().now();
        inputs.amendments =
            settings.list.into_iter().filter_map(|entry| active_amendment(entry, now)).collect();
        self.rebuild_plan(&mut inputs);
        // A cached denial may be of a limit that was raised, or of a counter that another instance reset.
        self.limiter().forget_denials();
    }

    /// Removes expired amendments, even while the store does not answer.
    fn expire_amendments(&self) {
        let now = self.metrics().now();
        let mut inputs = self.plan_inputs().lock();
        let before = inputs.amendments.len();
        inputs.amendments.retain(|active| now < active.until);
        if inputs.amendments.len() < before {
            self.rebuild_plan(&mut inputs);
        }
    }

    fn rebuild_plan(&self, inputs: &mut PlanInputs) {
        let Some(source) = inputs.source.clone() else { return };
        // This does not fail: the file was valid when it was loaded, and an amendment that does not fit
        // is left out.
        if let Ok(plan) = self.build_plan(&source, &mut inputs.amendments) {
            self.set_plan(plan);
        }
    }

    fn build_plan(
        &self,
        source: &PolicySource,
        active: &mut [ActiveAmendment],
    ) -> Result<Plan, FileProblems> {
        let amendments: Vec<_> = active.iter().map(|active| active.amendment.clone()).collect();
        let AmendedPlan { plan, refused } = self.limiter().compile(source, &amendments)?;
        active.iter_mut().for_each(|active| active.problem = None);
        for (index, problems) in refused {
            if let Some(active) = active.get_mut(index) {
                active.problem = Some(problems.to_string());
            }
        }
        Ok(plan)
    }

    /// All amendments, including those that do not fit the file.
    pub(crate) fn amendments(&self) -> Vec<ActiveAmendment> {
        self.plan_inputs().lock().amendments.clone()
    }
}

impl<S: Store + SharedSettings + 'static> App<S> {
    /// Reads the shared settings once and applies them. Call this before the first request, so that a
    /// restart forgets no amendment, and after changing a setting.
    pub async fn catch_up(self: &Arc<Self>) -> Result<(), StoreError> {
        let _turn = self.settings_lock().lock().await;
        let known = self.plan_inputs().lock().version;
        if let Some(settings) = self.limiter().store().read_settings(known).await? {
            let app = Arc::clone(self);
            // A large file takes a while to compile.
            let _ = tokio::task::spawn_blocking(move || app.apply_settings(settings)).await;
        }
        Ok(())
    }

    /// Follows the shared settings forever, and does periodic housekeeping.
    pub async fn follow_settings(self: Arc<Self>) {
        let (mut reported, mut rounds) = (None, 0_u32);
        loop {
            let problem = self.catch_up().await.err().map(|error| error.to_string());
            if problem != reported {
                let message = match &problem {
                    Some(problem) => format!("overrides cannot be read: {problem}"),
                    None => "overrides can be read again".to_owned(),
                };
                let level = if problem.is_some() { LogLevel::Warn } else { LogLevel::Info };
                log::emit(level, "board", &message, &[]);
                reported = problem;
            }
            self.expire_amendments();
            rounds += 1;
            if rounds >= ROUNDS_A_MINUTE {
                self.metrics().top().turn();
                rounds = 0;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Stores an amendment in the shared settings, and applies it here.
    pub(crate) async fn post_amendment(
        self: &Arc<Self>,
        amendment: &Amendment,
        lasts: Span,
    ) -> Result<(), StoreError> {
        let text = AmendmentRecord::of(amendment).text();
        self.limiter().store().put_setting(&amendment_name(amendment), &text, lasts).await?;
        self.catch_up().await
    }

    /// Removes an amendment; false if it did not exist.
    pub(crate) async fn remove_amendment(
        self: &Arc<Self>,
        amendment: &Amendment,
    ) -> Result<bool, StoreError> {
        let existed = self.limiter().store().remove_setting(&amendment_name(amendment)).await?;
        self.catch_up().await?;
        Ok(existed)
    }

    /// Makes every instance drop its cached denials.
    pub(crate) async fn broadcast_forget(self: &Arc<Self>) -> Result<(), StoreError> {
        let text = AmendmentRecord::Forget.text();
        self.limiter().store().put_setting("forget", &text, FORGET_LASTS).await?;
        self.catch_up().await
    }
}

/// Reads an entry of the shared settings. An entry that cannot be parsed was written by another version
/// of this program, and is ignored.
fn active_amendment(entry: SettingEntry, now: Timestamp) -> Option<ActiveAmendment> {
    let record: AmendmentRecord = serde_json::from_slice(&entry.text).ok()?;
    Some(ActiveAmendment {
        amendment: record.into_amendment()?,
        until: now + entry.left,
        problem: None,
    })
}

const NO_SOURCE: &str =
    "this server has a fixed plan and no configuration file: nothing can be changed";
/// Short enough for an amendment to take effect in all instances within a second.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// A minute, in steps of [`LOOK_EVERY`].
const ROUNDS_A_MINUTE: u32 = 200;
/// Long enough for every instance to read the entry, which it does every 300 ms.
const FORGET_LASTS: Span = Span::from_secs(30);
