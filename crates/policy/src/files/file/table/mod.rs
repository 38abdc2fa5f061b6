//! A mapping of the file is one table: [`file_table!`] makes the struct, the list of its fields, its reader
//! and its JSON Schema from it. A choice between names is one table too: [`file_choice!`].

mod choice;
mod shape;
#[cfg(test)]
mod tests;

pub use choice::FileChoice;
pub(crate) use choice::choose;
pub(crate) use shape::add_fields;
pub use shape::{OneOf, OneOrMany, TableField, YamlScalar, table_schema};

use schemars::{JsonSchema, SchemaGenerator};

use crate::files::problem::{ProblemReport, brief};
use crate::files::yaml::{SourceValue, YamlNode, YamlValue, one_or_many, text, unexpected};

/// A value of the file: how it is read, and what editors are told about it.
pub trait FileValue: Sized {
    /// The type whose schema editors see.
    type Shape: JsonSchema;

    /// Reads the value. `None` if it is wrong; the report then says why.
    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self>;
}

/// A mapping with a fixed set of fields.
pub trait FileTable: FileValue + Default {
    /// The names of all fields.
    const FIELDS: &'static [&'static str];

    /// The fields as editors see them.
    fn fields(generator: &mut SchemaGenerator) -> Vec<TableField>;
}

impl<T: FileValue> FileValue for Option<T> {
    type Shape = T::Shape;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        T::read(node, report).map(Some)
    }
}

/// All valid items of a list.
impl<T: FileValue> FileValue for Vec<T> {
    type Shape = Vec<T::Shape>;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        list(node, T::read, report)
    }
}

impl FileValue for SourceValue<String> {
    type Shape = String;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        text(node, "text", report)
    }
}

impl FileValue for SourceValue<bool> {
    type Shape = bool;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let text = text(node, "true or false", report)?;
        match text.value.as_str() {
            "true" => Some(text.map(|_| true)),
            "false" => Some(text.map(|_| false)),
            other => {
                report.add(&text.at, format!("{:?}: expected true or false", brief(other)));
                None
            }
        }
    }
}

impl<C: FileChoice> FileValue for SourceValue<C> {
    type Shape = OneOf<C>;

    fn read(node: &YamlNode, report: &mut ProblemReport<'_>) -> Option<Self> {
        let name = text(node, "text", report)?;
        let choice = C::named(&name, report)?;
        Some(name.map(|_| choice))
    }
}

/// A reader of one text or several; `expected` says what each of them is.
pub fn texts(
    expected: &'static str,
) -> impl Fn(&YamlNode, &mut ProblemReport<'_>) -> Option<Vec<SourceValue<String>>> {
    move |node, report| {
        let items = one_or_many(node).iter();
        Some(items.filter_map(|item| text(item, expected, report)).collect())
    }
}

/// All valid items of a list; any other value is reported.
pub fn list<T>(
    node: &YamlNode,
    read: impl Fn(&YamlNode, &mut ProblemReport<'_>) -> Option<T>,
    report: &mut ProblemReport<'_>,
) -> Option<Vec<T>> {
    let YamlValue::List(items) = &node.value else {
        unexpected(node, "a list", report);
        return None;
    };
    Some(items.iter().filter_map(|item| read(item, report)).collect())
}

/// Makes a struct that mirrors a mapping of the file, from a table of its fields.
///
/// ```text
/// file_table! {
///     /// What editors show for the whole mapping.
///     struct FileRoute("Route", "a route") {
///         /// What editors show for the field. It may be absent, and is the default of its type then.
///         name: Option<SourceValue<String>>,
///         /// A field with another name in the file, and a reader and a schema of its own.
///         condition as "match": Vec<FileCondition> as ConditionsShape = conditions,
///         /// Without it there is no route: its absence is reported, and nothing is read.
///         upstream: SourceValue<String> [required "the name of a service"],
///         /// Its absence is reported, and it is the default of its type then.
///         weights: Vec<SourceValue<String>> [wanted "a weight for each service"],
///     }
/// }
/// ```
///
/// With `extended at PLACE` beside its name, the mapping also has the fields that sections have there.
///
/// The texts beside the struct's name are the name of its definition in the schema, and what messages call
/// it.
///
/// A type says how its values are read and described ([`FileValue`]). `as SHAPE` describes them by another
/// type, and `= READER` reads them by a function from a node to an `Option`. Every problem is reported: one
/// wrong field keeps no other from being read.
#[macro_export]
macro_rules! file_table {
    (
        $(#[doc = $about:literal])*
        $vis:vis struct $Struct:ident($schema:literal, $what:literal $(, extended at $place:ident)?) {
            $(
                $(#[doc = $doc:literal])*
                $field:ident $(as $renamed:literal)?: $Type:ty $(as $Shape:ty)?
                    $([$need:ident $expected:literal])? $(= $read:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, Default)]
        $vis struct $Struct {
            $($(#[doc = $doc])* $vis $field: $Type,)+
            $(
                #[doc = concat!("The fields of sections at ", stringify!($place), ".")]
                $vis sections: Vec<$crate::section::YamlEntry>,
            )?
        }

        impl $crate::section::FileValue for $Struct {
            type Shape = Self;

            fn read(
                node: &$crate::section::YamlNode,
                report: &mut $crate::section::ProblemReport<'_>,
            ) -> Option<Self> {
                let known = <Self as $crate::section::FileTable>::FIELDS;
                let fields =
                    $crate::file_table!(@open node, $what, known, report $(, $place)?)?;
                $(
                    let name = $crate::file_table!(@name $field $($renamed)?);
                    let found =
                        $crate::file_table!(@find fields, name, report $(, $expected)?);
                    let $field: Option<$Type> = match found {
                        Some(node) => {
                            $crate::file_table!(@read node, report, $Type $(, $read)?)
                        }
                        None => None,
                    };
                )+
                Some(Self {
                    $($field: $crate::file_table!(@value $field $($need)?),)+
                    $(sections: fields.entries_at($crate::section::SectionPlace::$place, report),)?
                })
            }
        }

        impl $crate::section::FileTable for $Struct {
            const FIELDS: &'static [&'static str] =
                &[$($crate::file_table!(@name $field $($renamed)?)),+];

            fn fields(
                generator: &mut $crate::section::SchemaGenerator,
            ) -> Vec<$crate::section::TableField> {
                vec![$(
                    $crate::section::TableField {
                        name: $crate::file_table!(@name $field $($renamed)?),
                        about: &[$($doc),*],
                        is_needed: $crate::file_table!(@is_needed $($need)?),
                        schema: $crate::file_table!(
                            @schema generator, [$Type $(as $Shape)?] $($need)?
                        ),
                    }
                ),+]
            }
        }

        impl $crate::section::JsonSchema for $Struct {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn schema_id() -> std::borrow::Cow<'static, str> {
                concat!(module_path!(), "::", $schema).into()
            }

            fn json_schema(
                generator: &mut $crate::section::SchemaGenerator,
            ) -> $crate::section::Schema {
                let fields = <Self as $crate::section::FileTable>::fields(generator);
                $crate::section::table_schema(&[$($about),*], fields)
            }
        }
    };

    // The fields of a mapping, and of the sections that extend it.
    (@open $node:ident, $what:literal, $known:ident, $report:ident) => {
        $crate::section::YamlFields::of($node, $what, $known, $report)
    };
    (@open $node:ident, $what:literal, $known:ident, $report:ident, $place:ident) => {
        $crate::section::YamlFields::extended(
            $node, $what, $known, $crate::section::SectionPlace::$place, $report,
        )
    };

    // The name of a field in the file.
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $renamed:literal) => { $renamed };

    // The node of a field, if there is one; reports the absence of a field that must not be absent.
    (@find $fields:ident, $name:ident, $report:ident) => { $fields.get($name) };
    (@find $fields:ident, $name:ident, $report:ident, $expected:literal) => {
        $fields.required($name, $expected, $report)
    };

    // The value of a node: by its type, or by a reader.
    (@read $node:ident, $report:ident, $Type:ty) => {
        <$Type as $crate::section::FileValue>::read($node, $report)
    };
    (@read $node:ident, $report:ident, $Type:ty, $read:expr) => {
        ($read)($node, $report).map(Into::into)
    };

    // What a field is if it could not be read: no struct at all, or the default.
    (@value $field:ident required) => { $field? };
    (@value $field:ident $(wanted)?) => { $field.unwrap_or_default() };

    (@is_needed) => { false };
    (@is_needed $need:ident) => { true };

    // A field that may be absent may also be null.
    (@schema $generator:ident, [$($shape:tt)+]) => {
        $generator.subschema_for::<Option<$crate::file_table!(@shape $($shape)+)>>()
    };
    (@schema $generator:ident, [$($shape:tt)+] $need:ident) => {
        $generator.subschema_for::<$crate::file_table!(@shape $($shape)+)>()
    };
    (@shape $Type:ty) => { <$Type as $crate::section::FileValue>::Shape };
    (@shape $Type:ty as $Shape:ty) => { $Shape };
}
