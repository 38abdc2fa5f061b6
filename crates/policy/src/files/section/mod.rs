//! Parts of the file that other crates read: a program registers the sections that it has.
//!
//! A [`Section`] is a field at the top of the file, such as `gateway`. It may add fields to every policy and
//! to its cost. Its crate writes them as tables ([`file_table!`](crate::file_table)) and gives them a meaning.
//! A [`PolicySource`](crate::PolicySource) knows the sections of its program; the compiled section is in the
//! [`Plan`](crate::Plan). A file with a section that the program does not have is refused.

mod condition_list;
mod elsewhere;
mod place;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt::Debug;

pub use schemars::{JsonSchema, Schema, SchemaGenerator};

pub use self::condition_list::ConditionList;
pub(crate) use self::elsewhere::program_of;
pub use self::place::SectionPlace;
pub(crate) use self::place::known_fields;
pub use crate::files::compile::{
    bounded_span, file_path, permille, rules_for_forwarding, secret_text, units, whole,
};
pub use crate::files::file::{
    ConditionsShape, FileChoice, FileCondition, FileRequestRules, FileSecret, FileTable, FileValue,
    OneOf, OneOrMany, RefuseOrKeep, TableField, YamlScalar, conditions, list, table_schema, texts,
};
pub use crate::files::problem::{ProblemReport, brief};
pub use crate::files::yaml::{
    ByteRange, SourceValue, YamlEntry, YamlFields, YamlNode, YamlValue, entries, one_or_many, text,
    unexpected,
};
pub use crate::{file_choice, file_table};

/// A section of the file: how it is written, and what it means.
pub trait Section: Debug + Send + Sync + 'static {
    /// The name of its field at the top of the file.
    const NAME: &'static str;
    /// What editors show for that field.
    const ABOUT: &'static str;
    /// The section as it is written.
    type File: FileValue;
    /// The fields that it adds to a policy.
    type PolicyFile: FileTable;
    /// The fields that it adds to the `cost` of a policy. Each is a source of the cost, which is known only
    /// after the request: one unit is taken in advance.
    type CostFile: FileTable;
    /// The compiled section.
    type Plan: Any + Send + Sync;
    /// The compiled fields of a policy.
    type Policy: Any + Send + Sync;

    /// Compiles the section after all policies. Reports everything that is wrong with it.
    fn compile(
        file: &SourceValue<Self::File>,
        context: &SectionContext<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<Self::Plan>;

    /// Compiles the fields of a policy, also of one that has none. `None` if there is nothing to keep.
    fn compile_policy(
        file: &SectionPolicy<'_, Self>,
        report: &mut ProblemReport<'_>,
    ) -> Option<Self::Policy>
    where
        Self: Sized;
}

/// The sections of a program.
pub type Sections = &'static [&'static dyn RegisteredSection];

/// What a section can use of the rest of the file.
#[derive(Debug)]
pub struct SectionContext<'a> {
    pub(crate) attributes: &'a crate::files::attributes::PlanAttributes,
}

impl SectionContext<'_> {
    /// The attributes that policies use.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.attributes.names()
    }

    /// An empty list of conditions. Its attributes are looked up apart from those of policies.
    pub fn condition_list(&self) -> ConditionList {
        ConditionList::new(self.attributes.path_case())
    }
}

/// A policy as a section sees it.
#[derive(Debug)]
pub struct SectionPolicy<'a, S: Section> {
    /// The section's fields of the policy.
    pub fields: S::PolicyFile,
    /// The section's fields of its cost, if there are any.
    pub cost: Option<S::CostFile>,
    /// The `default` of its cost.
    pub cost_default: Option<&'a SourceValue<String>>,
    /// The attributes that its key, its conditions and its cost use.
    pub attributes: &'a [&'a str],
}

/// A section whose types are hidden, so that sections can be in a list. Every [`Section`] is one.
pub trait RegisteredSection: Debug + Send + Sync {
    /// The names of its fields at a place of the file.
    #[doc(hidden)]
    fn fields(&self, place: SectionPlace) -> &'static [&'static str];

    /// The same fields as editors see them.
    #[doc(hidden)]
    fn schema(&self, place: SectionPlace, generator: &mut SchemaGenerator) -> Vec<TableField>;

    /// Reads and compiles the section, if the file has it.
    #[doc(hidden)]
    fn compile_from(
        &self,
        top: &[YamlEntry],
        context: &SectionContext<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<CompiledSection>;

    /// Reads and compiles the fields of a policy.
    #[doc(hidden)]
    fn compile_policy_from(
        &self,
        policy: &PolicyEntries<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<CompiledSection>;
}

/// A compiled section, or its part of a policy.
pub(crate) type CompiledSection = Box<dyn Any + Send + Sync>;

/// What a policy has for sections.
#[doc(hidden)]
#[derive(Debug)]
pub struct PolicyEntries<'a> {
    pub(crate) policy: &'a [YamlEntry],
    pub(crate) cost: &'a [YamlEntry],
    pub(crate) cost_default: Option<&'a SourceValue<String>>,
    pub(crate) attributes: &'a [&'a str],
}

impl<S: Section> RegisteredSection for S {
    fn fields(&self, place: SectionPlace) -> &'static [&'static str] {
        match place {
            SectionPlace::Top => const { &[S::NAME] },
            SectionPlace::Policy => S::PolicyFile::FIELDS,
            SectionPlace::Cost => S::CostFile::FIELDS,
        }
    }

    fn schema(&self, place: SectionPlace, generator: &mut SchemaGenerator) -> Vec<TableField> {
        match place {
            SectionPlace::Top => vec![TableField {
                name: S::NAME,
                about: const { &[S::ABOUT] },
                is_needed: false,
                schema: generator.subschema_for::<Option<<S::File as FileValue>::Shape>>(),
            }],
            SectionPlace::Policy => S::PolicyFile::fields(generator),
            SectionPlace::Cost => S::CostFile::fields(generator),
        }
    }

    fn compile_from(
        &self,
        top: &[YamlEntry],
        context: &SectionContext<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<CompiledSection> {
        let entry =
            top.iter().find(|entry| entry.name.value == S::NAME && !entry.node.is_null())?;
        let file = SourceValue::new(entry.node.at.clone(), S::File::read(&entry.node, report)?);
        Some(Box::new(S::compile(&file, context, report)?))
    }

    fn compile_policy_from(
        &self,
        policy: &PolicyEntries<'_>,
        report: &mut ProblemReport<'_>,
    ) -> Option<CompiledSection> {
        let has_cost = own::<S::CostFile>(policy.cost).next().is_some();
        let policy = SectionPolicy::<'_, S> {
            fields: table(policy.policy, report),
            cost: has_cost.then(|| table(policy.cost, report)),
            cost_default: policy.cost_default,
            attributes: policy.attributes,
        };
        Some(Box::new(S::compile_policy(&policy, report)?))
    }
}

/// Those of the entries that are fields of a table.
fn own<T: FileTable>(entries: &[YamlEntry]) -> impl Iterator<Item = &YamlEntry> {
    entries.iter().filter(|entry| T::FIELDS.contains(&entry.name.value.as_str()))
}

/// Reads a table from those of the entries that are its fields.
fn table<T: FileTable>(entries: &[YamlEntry], report: &mut ProblemReport<'_>) -> T {
    let entries: Vec<_> = own::<T>(entries).cloned().collect();
    let at = entries.first().map_or(0..0, |entry| entry.name.at.clone());
    T::read(&YamlNode { at, value: YamlValue::Map(entries) }, report).unwrap_or_default()
}
