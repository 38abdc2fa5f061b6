//! Finds the block to guard: the function's body, or the async block that it returns.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    AssocType, Block, Error, Expr, ExprCall, ExprPath, GenericArgument, ItemFn, PathArguments,
    PathSegment, Result, ReturnType, Stmt, Type, TypeParamBound,
};

/// The part of a function that runs only if the limit allows the call.
pub(crate) struct FunctionBody<'a> {
    /// The statements after the check.
    pub(crate) block: &'a mut Block,
    pub(crate) is_async: bool,
    /// The span of the return type; the compiler checks that it can hold a denial.
    pub(crate) returned: Span,
}

impl<'a> FunctionBody<'a> {
    pub(crate) fn of(function: &'a mut ItemFn) -> Result<Self> {
        let sig = &function.sig;
        if let Some(token) = &sig.constness {
            return Err(Error::new(token.span, "a const function cannot be limited"));
        }
        let ReturnType::Type(_, returned) = &sig.output else {
            return Err(Error::new(sig.ident.span(), RETURNS_NOTHING));
        };
        let span = returned.span();
        if sig.asyncness.is_some() {
            return Ok(Self { block: &mut function.block, is_async: true, returned: span });
        }
        if future(&mut function.block).is_none() {
            if is_future(returned) {
                return Err(Error::new(span, NO_BLOCK));
            }
            return Ok(Self { block: &mut function.block, is_async: false, returned: span });
        }
        let returned = output_of(returned).unwrap_or(span);
        let block = future(&mut function.block).ok_or_else(|| Error::new(span, NO_BLOCK))?;
        Ok(Self { block, is_async: true, returned })
    }
}

/// The block of an `async move { ... }` at the end of a function, or in a `Box::pin`, as `#[async_trait]`
/// generates it: that attribute is expanded before those within it.
fn future(block: &mut Block) -> Option<&mut Block> {
    let Some(Stmt::Expr(tail, None)) = block.stmts.last_mut() else { return None };
    match tail {
        Expr::Async(future) => Some(&mut future.block),
        Expr::Call(call) if is_box_pin(call) => match call.args.first_mut()? {
            Expr::Async(future) => Some(&mut future.block),
            _ => None,
        },
        _ => None,
    }
}

fn is_box_pin(call: &ExprCall) -> bool {
    let Expr::Path(ExprPath { path, .. }) = &*call.func else { return false };
    let mut names = path.segments.iter().rev().map(|segment| &segment.ident);
    names.next().is_some_and(|name| name == "pin") && names.next().is_some_and(|name| name == "Box")
}

/// Whether a type is a future itself, and not a type that contains one.
fn is_future(returned: &Type) -> bool {
    let is_named_future = |bound: &TypeParamBound| match bound {
        TypeParamBound::Trait(bound) => {
            last(&bound.path).is_some_and(|name| name.ident == "Future")
        }
        _ => false,
    };
    match returned {
        Type::ImplTrait(future) => future.bounds.iter().any(is_named_future),
        Type::TraitObject(future) => future.bounds.iter().any(is_named_future),
        Type::Path(path) => last(&path.path).is_some_and(|name| {
            name.ident == "BoxFuture"
                || name.ident == "LocalBoxFuture"
                || ((name.ident == "Pin" || name.ident == "Box")
                    && argument(name).is_some_and(is_future))
        }),
        _ => false,
    }
}

fn last(path: &syn::Path) -> Option<&PathSegment> {
    path.segments.last()
}

/// The first type between the angle brackets.
fn argument(name: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &name.arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    })
}

/// The span of the `T` in `Output = T`.
fn output_of(returned: &Type) -> Option<Span> {
    let mut output = OutputFinder(None);
    output.visit_type(returned);
    output.0
}

/// Finds the first `Output = T` in a type.
struct OutputFinder(Option<Span>);

impl Visit<'_> for OutputFinder {
    fn visit_assoc_type(&mut self, assoc: &AssocType) {
        if self.0.is_none() && assoc.ident == "Output" {
            self.0 = Some(assoc.ty.span());
        }
        visit::visit_assoc_type(self, assoc);
    }
}

const RETURNS_NOTHING: &str = "this function returns nothing, so it cannot return a denial; \
     expected a Result<_, E> where E: From<tidegate::Denied>";
const NO_BLOCK: &str = "this function returns a future that is created elsewhere, so the limit cannot be \
     checked in it; expected an async function, or one that ends with `async move { ... }` or \
     `Box::pin(async move { ... })`";
