//! Conditions on requests that are tried one after the other.

use crate::Attributes;
use crate::files::attributes::PlanAttributes;
use crate::files::compile::compile_conditions;
use crate::files::file::FileCondition;
use crate::files::matcher::MatchCondition;
use crate::files::problem::ProblemReport;
use crate::files::settings::PathCase;

/// A list of conditions, each as in the `match` of a policy. The first that holds counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionList {
    attributes: PlanAttributes,
    list: Vec<Vec<MatchCondition>>,
}

impl ConditionList {
    pub(crate) fn new(path_case: PathCase) -> Self {
        Self { attributes: PlanAttributes::new(path_case), list: Vec::new() }
    }

    /// Compiles conditions that all have to hold, and adds them to the list.
    pub fn push(&mut self, file: &[FileCondition], report: &mut ProblemReport<'_>) {
        self.list.push(compile_conditions(file, &mut self.attributes, report));
    }

    /// The number of the first conditions that hold for a request.
    pub fn first_match<A: Attributes + ?Sized>(&self, request: &A) -> Option<usize> {
        let request = self.attributes.resolve(request);
        let holds = |conditions: &Vec<MatchCondition>| {
            conditions.iter().all(|condition| condition.holds(&request))
        };
        self.list.iter().position(holds)
    }

    /// Whether nothing was added.
    pub const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The attributes that the conditions use.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.attributes.names()
    }
}
