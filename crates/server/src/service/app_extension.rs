//! Extensions: components in other crates that follow the plan, and add metrics to the page.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::{Plan, Store};

use crate::{App, MetricFamily, NamedFiles};

/// A component in another crate, such as the gateway: it may depend on more of a plan than its limits, for
/// example on files that the plan names, and may have metrics of its own.
pub trait AppExtension: fmt::Debug + Send + Sync {
    /// Prepares for a plan that is about to take effect. With an error, the plan is refused. Can read
    /// files, since no request waits for it.
    fn prepare(&self, plan: &Plan) -> Result<(), String> {
        let _ = plan;
        Ok(())
    }

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

    /// The current metrics, under this plan.
    fn metric_families(&self, plan: &Arc<Plan>) -> Vec<MetricFamily> {
        let _ = plan;
        Vec::new()
    }
}

impl<S: Store> App<S> {
    /// Adds an extension, unless it was added before. As long as it exists, a plan that it refuses does
    /// not take effect.
    pub fn add_extension<E: AppExtension + 'static>(&self, extension: &Arc<E>) {
        let extension: Arc<dyn AppExtension> = Arc::<E>::clone(extension);
        self.extensions().add(Arc::downgrade(&extension));
    }
}

/// All extensions that still exist.
#[derive(Debug, Default)]
pub(crate) struct AppExtensions(Mutex<Vec<Weak<dyn AppExtension>>>);

impl AppExtensions {
    fn add(&self, extension: Weak<dyn AppExtension>) {
        let mut all = self.0.lock();
        all.retain(|other| other.strong_count() > 0);
        if !all.iter().any(|other| other.ptr_eq(&extension)) {
            all.push(extension);
        }
    }

    /// Prepares all extensions, up to the first that refuses the plan.
    pub(crate) fn prepare(&self, plan: &Plan) -> Result<(), String> {
        self.all().iter().try_for_each(|extension| extension.prepare(plan))
    }

    /// Makes all extensions read their files again. Returns the problems of those files.
    pub(crate) fn refresh(&self) -> Vec<String> {
        self.all().iter().flat_map(|extension| extension.refresh()).collect()
    }

    /// All files that extensions have read.
    pub(crate) fn files(&self) -> NamedFiles {
        let mut files = NamedFiles::default();
        self.all().iter().for_each(|follower| files.extend(&follower.files()));
        files
    }

    /// The metrics of all extensions.
    pub(crate) fn metric_families(&self, plan: &Arc<Plan>) -> Vec<MetricFamily> {
        self.all().iter().flat_map(|extension| extension.metric_families(plan)).collect()
    }

    fn all(&self) -> Vec<Arc<dyn AppExtension>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }
}
