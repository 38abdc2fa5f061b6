//! The key expression, such as `|user, to| (user.id, to)`, over the arguments of the function.

use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Error, Expr, FnArg, Ident, PatIdent, Result, Signature, Token};

/// A key expression: it looks like a closure, and sees the arguments that it names by reference.
pub(crate) struct KeyExpression {
    arguments: Vec<Ident>,
    expression: Expr,
}

impl Parse for KeyExpression {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Token![||]) {
            input.parse::<Token![||]>()?;
            return Ok(Self { arguments: Vec::new(), expression: input.parse()? });
        }
        let mut arguments = Punctuated::<Ident, Token![,]>::new();
        bar(input)?;
        while !input.peek(Token![|]) {
            arguments.push_value(argument(input)?);
            if !input.peek(Token![|]) {
                arguments.push_punct(input.parse().map_err(expected)?);
            }
        }
        bar(input)?;
        Ok(Self { arguments: arguments.into_iter().collect(), expression: input.parse()? })
    }
}

impl KeyExpression {
    /// An expression over arguments, or one that needs none and is written without bars: `5`.
    pub(crate) fn parse_or_value(input: ParseStream<'_>) -> Result<Self> {
        if input.peek(Token![|]) || input.peek(Token![||]) {
            return input.parse();
        }
        Ok(Self { arguments: Vec::new(), expression: input.parse()? })
    }
}

fn bar(input: ParseStream<'_>) -> Result<Token![|]> {
    input.parse().map_err(expected)
}

fn argument(input: ParseStream<'_>) -> Result<Ident> {
    let name = input.call(Ident::parse_any).map_err(expected)?;
    if input.peek(Token![:]) {
        let message = format!("`{name}` has its type from the function: expected |{name}| alone");
        return Err(Error::new(input.span(), message));
    }
    Ok(name)
}

fn expected(error: Error) -> Error {
    let message = "expected |argument, ...| expression, by the names of the function's arguments";
    Error::new(error.span(), message)
}

impl KeyExpression {
    /// The key as an expression within the function.
    pub(crate) fn within(&self, function: &Signature) -> Result<TokenStream> {
        let known = arguments_of(function);
        for argument in &self.arguments {
            if !known.contains(argument) {
                return Err(no_such_argument(argument, &known));
            }
        }
        let borrowed = self.arguments.iter().filter(|argument| *argument != "self");
        let names: Vec<_> = borrowed.collect();
        let expression = &self.expression;
        Ok(quote!({ #(let #names = &#names;)* #expression }))
    }
}

fn no_such_argument(argument: &Ident, known: &[Ident]) -> Error {
    let known: Vec<_> = known.iter().map(ToString::to_string).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let message = format!("`{argument}` is not an argument of this function; it has {known}");
    Error::new(argument.span(), message)
}

/// All names that the arguments bind, also within patterns.
fn arguments_of(function: &Signature) -> Vec<Ident> {
    let mut names = BoundNames::default();
    for argument in &function.inputs {
        match argument {
            FnArg::Receiver(receiver) => names.0.push(receiver.self_token.into()),
            FnArg::Typed(typed) => names.visit_pat(&typed.pat),
        }
    }
    names.0
}

#[derive(Default)]
struct BoundNames(Vec<Ident>);

impl Visit<'_> for BoundNames {
    fn visit_pat_ident(&mut self, pattern: &PatIdent) {
        self.0.push(pattern.ident.clone());
        visit::visit_pat_ident(self, pattern);
    }
}
