//! Who goes by more of a plan than its limits, and is asked before it takes effect.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::{Plan, Store};

use crate::{App, NamedFiles};

/// Needs more for a plan than the plan: files that it names, say.
pub trait PlanFollower: fmt::Debug + Send + Sync {
    /// Gets ready for a plan that is about to take effect, or says why it cannot be followed: then it
    /// does not take effect. May read files, since no request waits for it.
    fn prepare(&self, plan: &Plan) -> Result<(), String>;

    /// Reads the files again that the plan in effect names, and goes by them from now on. A file that
    /// makes no sense changes nothing, and does not keep the others from taking effect. Returns what is
    /// wrong with such files.
    fn refresh(&self) -> Vec<String> {
        Vec::new()
    }

    /// The files that were read last, also for a plan that was refused because of one of them.
    fn files(&self) -> NamedFiles {
        NamedFiles::default()
    }
}

impl<S: Store> App<S> {
    /// A plan that this one cannot follow does not take effect from now on, as long as it is there.
    pub fn add_follower<F: PlanFollower + 'static>(&self, follower: &Arc<F>) {
        let follower: Arc<dyn PlanFollower> = Arc::<F>::clone(follower);
        self.followers().add(Arc::downgrade(&follower));
    }
}

/// All of them, as long as they are there.
#[derive(Debug, Default)]
pub(crate) struct PlanFollowers(Mutex<Vec<Weak<dyn PlanFollower>>>);

impl PlanFollowers {
    /// Adds one, unless it is there already.
    pub(crate) fn add(&self, follower: Weak<dyn PlanFollower>) {
        let mut all = self.0.lock();
        all.retain(|it| it.strong_count() > 0);
        if !all.iter().any(|it| it.ptr_eq(&follower)) {
            all.push(follower);
        }
    }

    /// Whether all of them can follow, or why the first cannot.
    pub(crate) fn prepare(&self, plan: &Plan) -> Result<(), String> {
        self.all().iter().try_for_each(|follower| follower.prepare(plan))
    }

    /// Has all of them read their files again. Returns what is wrong with those.
    pub(crate) fn refresh(&self) -> Vec<String> {
        self.all().iter().flat_map(|follower| follower.refresh()).collect()
    }

    /// All files that they have read.
    pub(crate) fn files(&self) -> NamedFiles {
        let mut files = NamedFiles::default();
        self.all().iter().for_each(|follower| files.extend(&follower.files()));
        files
    }

    fn all(&self) -> Vec<Arc<dyn PlanFollower>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
