//! What a part of the file is made of: tables, choices, values with their places, and the report.

pub(crate) use schemars::{JsonSchema, Schema, SchemaGenerator};

pub(crate) use crate::file::{
    FileChoice, FileValue, TableField, file_choice, file_table, table_schema,
};
pub(crate) use crate::problem::ProblemReport;
pub(crate) use crate::yaml::{YamlFields, YamlNode};
