//! Changes that operators make at run time. They are kept on the store's board, so that every
//! instance sees them, and each instance builds its plan from the file and these changes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::config::{AmendedPlan, Amendment, FileProblems, PolicyMode, PolicySource};
use tidegate::{
    Plan, SettingEntry, SettingsSnapshot, SharedSettings, Span, Store, StoreError, Timestamp,
};
use tokio::time::sleep;

use crate::App;
use crate::log::{self, LogLevel};

/// A change that is in effect, or would be if it fitted the file.
#[derive(Clone, Debug)]
pub(crate) struct ActiveAmendment {
    pub(crate) amendment: Amendment,
    pub(crate) until: Timestamp,
    /// Why it is not in effect.
    pub(crate) problem: Option<String>,
}

/// What the current plan was built from.
#[derive(Debug, Default)]
pub(crate) struct PlanInputs {
    /// `None` for a plan that came without its text.
    pub(crate) source: Option<PolicySource>,
    pub(crate) amendments: Vec<ActiveAmendment>,
    /// The board's version.
    version: Option<u64>,
}

impl PlanInputs {
    pub(crate) fn of(source: Option<PolicySource>) -> Self {
        Self { source, ..Self::default() }
    }
}

/// A change as it stands on the board.
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
    /// Remembered denials may be out of date: somebody has given something back.
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

/// There is one override per key and one mode per policy. Lengths keep the parts between the
/// slashes unambiguous, whatever they contain.
pub(crate) fn amendment_name(amendment: &Amendment) -> String {
    match amendment {
        Amendment::Override { policy, key, .. } => {
            format!("override/{}/{policy}/{key}", policy.len())
        }
        Amendment::Mode { policy, .. } => format!("mode/{policy}"),
    }
}

impl<S: Store> App<S> {
    /// Decides by this text from now on, with the changes that are in effect; or reports everything
    /// that is wrong with it, and goes on as before.
    pub fn reload(&self, source: &PolicySource) -> Result<(), FileProblems> {
        let mut making = self.plan_inputs().lock();
        let mut posted = making.amendments.clone();
        let plan = self.build_plan(source, &mut posted)?;
        self.followers().prepare(&plan).map_err(|why| FileProblems::of(source, why))?;
        (making.source, making.amendments) = (Some(source.clone()), posted);
        self.set_plan(plan);
        Ok(())
    }

    /// Whether a change fits the file; if not, why.
    pub(crate) fn try_amendment(&self, amendment: &Amendment) -> Result<(), String> {
        let making = self.plan_inputs().lock();
        let source = making.source.as_ref().ok_or(NO_SOURCE)?;
        let name = amendment_name(amendment);
        let others = making.amendments.iter().map(|posted| &posted.amendment);
        let mut all: Vec<Amendment> =
            others.filter(|it| amendment_name(it) != name).cloned().collect();
        all.push(amendment.clone());
        let amended = self.limiter().compile(source, &all).map_err(|it| it.to_string())?;
        match amended.refused.into_iter().find(|(place, _)| *place + 1 == all.len()) {
            Some((_, problems)) => Err(problems.to_string()),
            None => Ok(()),
        }
    }

    /// Makes the plan anew, of what is on the board.
    fn apply_settings(&self, notices: SettingsSnapshot) {
        let mut making = self.plan_inputs().lock();
        making.version = Some(notices.version);
        let now = self.metrics().now();
        making.amendments =
            notices.list.into_iter().filter_map(|notice| active_amendment(notice, now)).collect();
        self.rebuild_plan(&mut making);
        // A denial that is remembered may be of a limit that was raised, or of a count that was
        // reset elsewhere.
        self.limiter().forget_denials();
    }

    /// Ends what has expired, whether or not the store answers.
    fn expire_amendments(&self) {
        let now = self.metrics().now();
        let mut making = self.plan_inputs().lock();
        let before = making.amendments.len();
        making.amendments.retain(|posted| now < posted.until);
        if making.amendments.len() < before {
            self.rebuild_plan(&mut making);
        }
    }

    fn rebuild_plan(&self, making: &mut PlanInputs) {
        let Some(source) = making.source.clone() else { return };
        // The file was valid when it came, and a change that does not fit is left out.
        if let Ok(plan) = self.build_plan(&source, &mut making.amendments) {
            self.set_plan(plan);
        }
    }

    fn build_plan(
        &self,
        source: &PolicySource,
        posted: &mut [ActiveAmendment],
    ) -> Result<Plan, FileProblems> {
        let amendments: Vec<_> = posted.iter().map(|posted| posted.amendment.clone()).collect();
        let AmendedPlan { plan, refused } = self.limiter().compile(source, &amendments)?;
        posted.iter_mut().for_each(|posted| posted.problem = None);
        for (place, problems) in refused {
            if let Some(posted) = posted.get_mut(place) {
                posted.problem = Some(problems.to_string());
            }
        }
        Ok(plan)
    }

    /// The changes, in effect or not.
    pub(crate) fn amendments(&self) -> Vec<ActiveAmendment> {
        self.plan_inputs().lock().amendments.clone()
    }
}

impl<S: Store + SharedSettings + 'static> App<S> {
    /// Looks at the board once and applies it. Call it before the first request, so that a restart
    /// forgets nothing, and after changing the board.
    pub async fn catch_up(self: &Arc<Self>) -> Result<(), StoreError> {
        let _turn = self.settings_lock().lock().await;
        let known = self.plan_inputs().lock().version;
        if let Some(notices) = self.limiter().store().read_settings(known).await? {
            let app = Arc::clone(self);
            // A large file takes a while to compile.
            let _ = tokio::task::spawn_blocking(move || app.apply_settings(notices)).await;
        }
        Ok(())
    }

    /// Follows the board forever, and does periodic housekeeping.
    pub async fn follow_settings(self: Arc<Self>) {
        let (mut said, mut rounds) = (None, 0_u32);
        loop {
            let problem = self.catch_up().await.err().map(|error| error.to_string());
            if problem != said {
                let message = match &problem {
                    Some(problem) => format!("overrides cannot be followed: {problem}"),
                    None => "overrides are followed again".to_owned(),
                };
                let level = if problem.is_some() { LogLevel::Warn } else { LogLevel::Info };
                log::emit(level, "board", &message, &[]);
                said = problem;
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

    /// Puts a change on the board, and applies it.
    pub(crate) async fn post_amendment(
        self: &Arc<Self>,
        amendment: &Amendment,
        lasts: Span,
    ) -> Result<(), StoreError> {
        let text = AmendmentRecord::of(amendment).text();
        self.limiter().store().put_setting(&amendment_name(amendment), &text, lasts).await?;
        self.catch_up().await
    }

    /// Takes a change down; false if there was none.
    pub(crate) async fn remove_amendment(
        self: &Arc<Self>,
        amendment: &Amendment,
    ) -> Result<bool, StoreError> {
        let was_there = self.limiter().store().remove_setting(&amendment_name(amendment)).await?;
        self.catch_up().await?;
        Ok(was_there)
    }

    /// Tells every instance to forget the denials that it remembers.
    pub(crate) async fn broadcast_forget(self: &Arc<Self>) -> Result<(), StoreError> {
        let text = AmendmentRecord::Forget.text();
        self.limiter().store().put_setting("forget", &text, FORGET_LASTS).await?;
        self.catch_up().await
    }
}

/// What cannot be read is of another version of this program, and none of our business.
fn active_amendment(notice: SettingEntry, now: Timestamp) -> Option<ActiveAmendment> {
    let note: AmendmentRecord = serde_json::from_slice(&notice.text).ok()?;
    Some(ActiveAmendment {
        amendment: note.into_amendment()?,
        until: now + notice.left,
        problem: None,
    })
}

const NO_SOURCE: &str = "this server was given a plan and not a file: nothing can be changed";
/// So that all instances obey within a second.
const LOOK_EVERY: Duration = Duration::from_millis(300);
const ROUNDS_A_MINUTE: u32 = 200;
/// Long enough to be seen by an instance that looks every 300 ms.
const FORGET_LASTS: Span = Span::from_secs(30);
