//! A choice between names, as a table.

use crate::files::problem::ProblemReport;
use crate::files::yaml::SourceValue;

/// An enum whose variants have names in the file.
pub trait FileChoice: Copy + Sized + 'static {
    /// All variants, in the order in which messages list them.
    const ALL: &'static [Self];
    /// What messages call it.
    const WHAT: &'static str;
    /// The name of its definition in the schema.
    const SCHEMA: &'static str;
    /// What editors show for it.
    const ABOUT: &'static str;

    /// The same, with more about each choice if there is more to say.
    fn about() -> String {
        Self::ABOUT.to_owned()
    }

    /// The name in the file.
    fn name(self) -> &'static str;

    /// The choice with this name; any other name is reported.
    fn named(name: &SourceValue<String>, report: &mut ProblemReport<'_>) -> Option<Self> {
        choose(name, Self::WHAT, Self::ALL, report)
    }
}

/// One of these choices by its name; any other name is reported.
pub(crate) fn choose<C: FileChoice>(
    name: &SourceValue<String>,
    what: &str,
    all: &[C],
    report: &mut ProblemReport<'_>,
) -> Option<C> {
    let found = all.iter().copied().find(|choice| choice.name() == name.value);
    if found.is_none() {
        let names: Vec<_> = all.iter().map(|choice| choice.name()).collect();
        report.add_unknown(&name.at, what, &name.value, &names);
    }
    found
}

/// Makes an enum, the names of its variants and its part in the schema. The texts beside its name are what
/// messages call it, the name of its definition in the schema, and what editors show for it.
#[macro_export]
macro_rules! file_choice {
    ($(
        $(#[$attribute:meta])*
        $vis:vis enum $Choice:ident($what:literal, $schema:literal, $about:literal) {
            $($(#[$detail:meta])* $Variant:ident = $name:literal),+ $(,)?
        }
    )+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $Choice {
            $($(#[$detail])* $Variant),+
        }

        impl $Choice {
            /// All variants.
            $vis const ALL: &'static [Self] = &[$(Self::$Variant),+];

            /// The name in configuration.
            $vis const fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name),+ }
            }
        }

        impl std::fmt::Display for $Choice {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        $crate::file_choice!(@impl $Choice, $what, $schema, $about);
    )+};

    // For an enum with names that is not defined here.
    (@impl $Choice:ty, $what:literal, $schema:literal, $about:literal) => {
        impl $crate::section::FileChoice for $Choice {
            const ALL: &'static [Self] = <$Choice>::ALL;
            const WHAT: &'static str = $what;
            const SCHEMA: &'static str = $schema;
            const ABOUT: &'static str = $about;

            fn name(self) -> &'static str {
                <$Choice>::name(self)
            }
        }
    };
}
