//! Plan followers: components that prepare for a new plan, and can refuse it, before it takes effect.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::{Plan, Store};

use crate::{App, NamedFiles};

/// A component that depends on more of a plan than its limits, such as the files it names.
pub trait PlanFollower: fmt::Debug + Send + Sync {
    /// Prepares for a plan that is about to take effect. With an error, the plan is refused. Can read
    /// files, since no request waits for it.
    fn prepare(&self, plan: &Plan) -> Result<(), String>;

    /// Reads the files again that the plan in effect names, and uses them from now on. An invalid file
    /// changes nothing, and does not keep the others from taking effect. Returns the problems of such
    /// files.
    fn refresh(&self) -> Vec<String> {
        Vec::new()
    }

    /// The files that were read last, even if the plan was refused because of one of them.
    fn files(&self) -> NamedFiles {
        NamedFiles::default()
    }
}

impl<S: Store> App<S> {
    /// Adds a follower. As long as it exists, a plan that it refuses does not take effect.
    pub fn add_follower<F: PlanFollower + 'static>(&self, follower: &Arc<F>) {
        let follower: Arc<dyn PlanFollower> = Arc::<F>::clone(follower);
        self.followers().add(Arc::downgrade(&follower));
    }
}

/// All followers that still exist.
#[derive(Debug, Default)]
pub(crate) struct PlanFollowers(Mutex<Vec<Weak<dyn PlanFollower>>>);

impl PlanFollowers {
    /// Adds a follower, unless it was added before.
    pub(crate) fn add(&self, follower: Weak<dyn PlanFollower>) {
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        if !all.iter().any(|other| other.ptr_eq(&follower)) {
            all.push(follower);
        }
    }

    /// Prepares all followers, up to the first that refuses the plan.
    pub(crate) fn prepare(&self, plan: &Plan) -> Result<(), String> {
        self.all().iter().try_for_each(|follower| follower.prepare(plan))
    }

    /// Makes all followers read their files again. Returns the problems of those files.
    pub(crate) fn refresh(&self) -> Vec<String> {
        self.all().iter().flat_map(|follower| follower.refresh()).collect()
    }

    /// All files that followers have read.
    pub(crate) fn files(&self) -> NamedFiles {
        let mut files = NamedFiles::default();
        self.all().iter().for_each(|follower| files.extend(&follower.files()));
        files
    }

    fn all(&self) -> Vec<Arc<dyn PlanFollower>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
