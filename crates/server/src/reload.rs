//! Follows a configuration file: a good change takes effect at once, a bad one changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use tidegate::Store;
use tidegate::config::{Problems, Source};
use tokio::sync::Notify;

use crate::{App, files};

/// Follows one file on behalf of an [`App`].
#[derive(Debug)]
pub struct Reloader<S> {
    app: Arc<App<S>>,
    path: PathBuf,
    /// What was tried last, good or bad: the same text is not tried again.
    last: Option<String>,
    wake: Arc<Notify>,
}

/// What a reload did.
#[derive(Debug)]
pub enum Reloaded {
    /// The file says what it said before.
    Unchanged,
    /// It took effect.
    Changed,
    /// It is wrong, and the plan before it stays.
    Refused(Problems),
}

impl<S: Store + 'static> Reloader<S> {
    /// For a file whose present text, `loaded`, is in effect already.
    pub fn new(app: Arc<App<S>>, path: impl Into<PathBuf>, loaded: &Source) -> Self {
        let last = Some(loaded.text().to_owned());
        Self { app, path: path.into(), last, wake: Arc::new(Notify::new()) }
    }

    /// Wakes [`follow`](Self::follow) up: somebody asks for a reload.
    pub fn wake(&self) -> Arc<Notify> {
        Arc::clone(&self.wake)
    }

    /// Reads the file and, if it is good and new, decides by it from now on.
    pub fn reload(&mut self) -> Reloaded {
        let source = match Source::read(&self.path) {
            Ok(source) if self.last.as_deref() == Some(source.text()) => {
                return Reloaded::Unchanged;
            }
            Ok(source) => source,
            Err(problems) => {
                // Not even text. Remembered by what is said about it, to be said once.
                let said = problems.to_string();
                if self.last.as_ref() == Some(&said) {
                    return Reloaded::Unchanged;
                }
                self.last = Some(said);
                self.app.reloaded(Err(&problems));
                return Reloaded::Refused(problems);
            }
        };
        let outcome = self.app.reload(&source);
        self.last = Some(source.text().to_owned());
        match outcome {
            Ok(()) => {
                self.app.reloaded(Ok(()));
                Reloaded::Changed
            }
            Err(problems) => {
                self.app.reloaded(Err(&problems));
                Reloaded::Refused(problems)
            }
        }
    }

    /// Follows the file for ever, and tells `report` about every change.
    pub async fn follow(self, report: impl Fn(&Reloaded) + Send + Sync + 'static) {
        let (paths, wake) = (vec![self.path.clone()], self.wake());
        let report = Arc::new(report);
        let look = move |mut reloader: Self| {
            let reloaded = reloader.reload();
            if !matches!(reloaded, Reloaded::Unchanged) {
                report(&reloaded);
            }
            reloader
        };
        files::follow(self, paths, wake, look).await;
    }
}
