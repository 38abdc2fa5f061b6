//! Parses the arguments of the attribute.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitStr, Result, Token, bracketed, token};
use tidegate_core::{AlgorithmKind, Limit, Quota};

use crate::key::KeyExpression;

/// `name = "...", quota = "...", ...`: each at most once, in any order.
#[derive(Default)]
pub(crate) struct AttributeArguments {
    pub(crate) name: Option<LitStr>,
    pub(crate) key: Option<KeyExpression>,
    pub(crate) cost: Option<KeyExpression>,
    pub(crate) scope: ScopeArgument,
    pub(crate) on_denied: OnDeniedArgument,
    pub(crate) source: LimitSource,
}

/// Where the limit comes from.
pub(crate) enum LimitSource {
    /// The attribute itself; the counters are those of this process.
    Here { quotas: Vec<LitStr>, algorithm: Option<AlgorithmKind>, fail: FailArgument },
    /// A limiter of the program.
    Limiter(Expr),
}

impl Default for LimitSource {
    fn default() -> Self {
        Self::Here { quotas: Vec::new(), algorithm: None, fail: FailArgument::Local }
    }
}

/// Arguments that are one of a few words; the first is the default.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $first:literal => $one:ident $(, $word:literal => $variant:ident)* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) enum $name { #[default] $one $(, $variant)* }

        impl Parse for $name {
            fn parse(input: ParseStream<'_>) -> Result<Self> {
                let expected = [$first $(, $word)*].join(", ");
                let no_word = |error: Error| {
                    Error::new(error.span(), format!("expected one of {expected}, without quotes"))
                };
                let word: Ident = input.parse().map_err(no_word)?;
                match word.to_string().as_str() {
                    $first => Ok(Self::$one),
                    $($word => Ok(Self::$variant),)*
                    other => {
                        Err(Error::new(word.span(), format!("`{other}`: expected one of {expected}")))
                    }
                }
            }
        }
    )*};
}

choices! {
    /// What the limit counts by.
    ScopeArgument { "global" => Global, "user" => User, "ip" => Ip }
    /// What a denied call does.
    OnDeniedArgument { "error" => Error, "wait" => Wait }
    /// What a call does when the store does not answer.
    FailArgument { "local" => Local, "open" => Open, "closed" => Closed }
}

impl Parse for AttributeArguments {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut read = ArgumentReader::default();
        while !input.is_empty() {
            let nameless = |error: Error| {
                let message =
                    format!("expected argument = value, where the argument is one of {KNOWN}");
                Error::new(error.span(), message)
            };
            let argument: Ident = input.parse().map_err(nameless)?;
            input.parse::<Token![=]>().map_err(nameless)?;
            read.argument(&argument, input)?;
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        read.finish()
    }
}

/// Collects the arguments as written, before their combination is checked.
#[derive(Default)]
struct ArgumentReader {
    arguments: AttributeArguments,
    seen: Vec<Ident>,
    quotas: Vec<LitStr>,
    algorithm: Option<AlgorithmKind>,
    fail: FailArgument,
    limiter: Option<Expr>,
}

impl ArgumentReader {
    fn argument(&mut self, argument: &Ident, input: ParseStream<'_>) -> Result<()> {
        if self.span_of(&argument.to_string()).is_some() {
            return Err(Error::new(argument.span(), format!("`{argument}` is given twice")));
        }
        match argument.to_string().as_str() {
            "name" => self.arguments.name = Some(name(input)?),
            "quota" => self.quotas = quotas(input)?,
            "algorithm" => self.algorithm = Some(algorithm(input)?),
            "key" => self.arguments.key = Some(input.parse()?),
            "cost" => self.arguments.cost = Some(KeyExpression::parse_or_value(input)?),
            "scope" => self.arguments.scope = input.parse()?,
            "on_denied" => self.arguments.on_denied = input.parse()?,
            "fail" => self.fail = input.parse()?,
            "limiter" => self.limiter = Some(input.parse()?),
            other => {
                let message = format!("unknown argument `{other}`: expected one of {KNOWN}");
                return Err(Error::new(argument.span(), message));
            }
        }
        self.seen.push(argument.clone());
        Ok(())
    }

    fn finish(mut self) -> Result<AttributeArguments> {
        let missing = |what: &str| Error::new(Span::call_site(), what);
        self.arguments.source = match self.limiter.take() {
            Some(limiter) => {
                for unused in ["quota", "algorithm", "fail"] {
                    if let Some(span) = self.span_of(unused) {
                        let message = format!("`{unused}` belongs to the limiter: leave one out");
                        return Err(Error::new(span, message));
                    }
                }
                LimitSource::Limiter(limiter)
            }
            None if self.quotas.is_empty() => return Err(missing(NO_QUOTA)),
            None if self.arguments.name.is_none() => return Err(missing(NO_NAME)),
            None => {
                self.check_limits()?;
                LimitSource::Here {
                    quotas: self.quotas,
                    algorithm: self.algorithm,
                    fail: self.fail,
                }
            }
        };
        Ok(self.arguments)
    }

    /// Checks each quota with its algorithm, which can refuse a valid quota.
    fn check_limits(&self) -> Result<()> {
        for quota in &self.quotas {
            let refused = |error| Error::new(quota.span(), error);
            let parsed: Quota = quota.value().parse().map_err(refused)?;
            let algorithm = self.algorithm.unwrap_or(AlgorithmKind::for_quota(&parsed));
            Limit::new(algorithm, &parsed).map_err(refused)?;
        }
        Ok(())
    }

    fn span_of(&self, argument: &str) -> Option<Span> {
        self.seen.iter().find(|seen| *seen == argument).map(Ident::span)
    }
}

fn name(input: ParseStream<'_>) -> Result<LitStr> {
    let name: LitStr = input.parse()?;
    let length = name.value().len();
    if (1..=MAX_NAME).contains(&length) {
        return Ok(name);
    }
    let message = format!("a name of {length} bytes: expected 1 to {MAX_NAME}");
    Err(Error::new(name.span(), message))
}

fn quotas(input: ParseStream<'_>) -> Result<Vec<LitStr>> {
    if !input.peek(token::Bracket) {
        return Ok(vec![input.parse()?]);
    }
    let list;
    let bracket = bracketed!(list in input);
    let quotas = Punctuated::<LitStr, Token![,]>::parse_terminated(&list)?;
    if (1..=MAX_LIMITS).contains(&quotas.len()) {
        return Ok(quotas.into_iter().collect());
    }
    let message = format!("{} quotas: expected 1 to {MAX_LIMITS}", quotas.len());
    Err(Error::new(bracket.span.join(), message))
}

fn algorithm(input: ParseStream<'_>) -> Result<AlgorithmKind> {
    let name: LitStr = input.parse()?;
    name.value().parse().map_err(|error| Error::new(name.span(), error))
}

const KNOWN: &str = "name, quota, algorithm, key, cost, scope, on_denied, fail, limiter";
const NO_QUOTA: &str = "no limit: expected quota = \"100/minute\", or limiter = ...";
const NO_NAME: &str = "no name: expected name = \"...\", which identifies its counters";
/// The most limits of a policy.
const MAX_LIMITS: usize = 32;
const MAX_NAME: usize = 128;
