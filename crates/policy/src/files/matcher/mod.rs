//! Matches requests against the conditions of policies and routes.

mod condition;
mod glob;
mod index;
mod pattern;

pub(crate) use condition::{ConditionMismatch, MatchCondition};
pub(crate) use glob::PathGlob;
pub(crate) use index::PolicyIndex;
pub(crate) use pattern::ValuePattern;
