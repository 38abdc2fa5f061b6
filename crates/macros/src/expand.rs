//! Expands a function into one that checks its limits first.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, Expr, ItemFn, Result, Signature, Stmt};
use tidegate_core::AlgorithmKind;

use crate::arguments::{
    AttributeArguments, FailArgument, LimitSource, OnDeniedArgument, ScopeArgument,
};
use crate::body::FunctionBody;

/// The function, with a preamble that returns early when a limit denies.
pub(crate) fn expand(arguments: AttributeArguments, mut function: ItemFn) -> Result<TokenStream> {
    let mut all = vec![arguments];
    for attribute in take_siblings(&mut function.attrs) {
        all.push(attribute.parse_args()?);
    }
    let signature = function.sig.clone();
    let body = FunctionBody::of(&mut function)?;
    let limits = all.iter().enumerate();
    let limits = limits.map(|(index, one)| LimitTokens::new(index, one, &signature, body.is_async));
    let limits = limits.collect::<Result<Vec<_>>>()?;
    let set_up = limits.iter().map(|limit| &limit.set_up);
    let checks = (0..limits.len()).map(|index| check(&limits, index, body.returned));
    let preamble = quote!({ #(#set_up)* #(#checks)* });
    body.block.stmts.insert(0, Stmt::Expr(Expr::Verbatim(preamble), None));
    Ok(function.into_token_stream())
}

/// Checks the limit at `index`. If it denies, the units of the limits before it are given back.
fn check(limits: &[LimitTokens], index: usize, returned: Span) -> TokenStream {
    let enter = &limits[index].enter;
    let leave = limits[..index].iter().map(|limit| &limit.leave);
    let denied = Ident::new("denied", Span::mixed_site());
    let error = quote_spanned! {returned=>
        ::tidegate::attribute::FromDenied::from_denied(#denied)
    };
    quote! {
        if let ::core::result::Result::Err(#denied) = #enter {
            #(#leave)*
            return #error;
        }
    }
}

/// The code for one attribute.
struct LimitTokens {
    set_up: TokenStream,
    enter: TokenStream,
    leave: TokenStream,
}

impl LimitTokens {
    fn new(
        index: usize,
        arguments: &AttributeArguments,
        function: &Signature,
        is_async: bool,
    ) -> Result<Self> {
        let name = match &arguments.name {
            Some(name) => name.to_token_stream(),
            None => function.ident.to_string().into_token_stream(),
        };
        let key_expression = key(arguments, function, &name)?;
        let key = Ident::new(&format!("key_{index}"), Span::mixed_site());
        let cost = Ident::new(&format!("cost_{index}"), Span::mixed_site());
        let cost_expression = cost_tokens(arguments, function)?;
        let (now, wait) = if is_async { ("", quote!(.await)) } else { ("_now", quote!()) };
        let verb = if arguments.on_denied == OnDeniedArgument::Wait { "queue" } else { "enter" };
        let (enter, leave) = (format_ident!("{verb}{now}"), format_ident!("leave{now}"));
        Ok(match &arguments.source {
            LimitSource::Here { quotas, algorithm, fail } => {
                let limited = format_ident!("__TIDEGATE_{index}");
                let (algorithm, fail) = (algorithm_tokens(*algorithm), fail_tokens(*fail));
                Self {
                    set_up: quote! {
                        static #limited: ::tidegate::attribute::FunctionLimit =
                            ::tidegate::attribute::FunctionLimit::new(
                                #name, &[#(#quotas),*], #algorithm, #fail,
                            );
                        let #key = #key_expression;
                        let #cost = #cost_expression;
                    },
                    enter: quote!(#limited.#enter(&#key, #cost)#wait),
                    leave: quote!(#limited.#leave(&#key, #cost)#wait;),
                }
            }
            LimitSource::Limiter(expression) => {
                let limiter = Ident::new(&format!("limiter_{index}"), Span::mixed_site());
                Self {
                    set_up: quote! {
                        let #limiter = &#expression;
                        let #key = #key_expression;
                        let #cost = #cost_expression;
                    },
                    enter: quote!(::tidegate::attribute::#enter(#limiter, #name, &#key, #cost)#wait),
                    leave: quote!(::tidegate::attribute::#leave(#limiter, &#key, #cost)#wait;),
                }
            }
        })
    }
}

/// An optional key: `None` exempts the call.
fn key(
    arguments: &AttributeArguments,
    function: &Signature,
    name: &TokenStream,
) -> Result<TokenStream> {
    let own = arguments.key.as_ref().map(|key| key.within(function)).transpose()?;
    let some = quote!(::core::option::Option::Some);
    let scope = match arguments.scope {
        ScopeArgument::Global => {
            let shared = own.unwrap_or_else(|| quote!(""));
            return Ok(quote!(#some(#shared)));
        }
        ScopeArgument::User => quote!(User),
        ScopeArgument::Ip => quote!(Ip),
    };
    let caller = Ident::new("caller", Span::mixed_site());
    let together = own.map_or_else(|| quote!(#caller), |own| quote!((#caller, #own)));
    Ok(quote! {
        match ::tidegate::attribute::resolve(::tidegate::attribute::FunctionScope::#scope, #name) {
            #some(#caller) => #some(#together),
            ::core::option::Option::None => ::core::option::Option::None,
        }
    })
}

/// What the call costs.
fn cost_tokens(arguments: &AttributeArguments, function: &Signature) -> Result<TokenStream> {
    let Some(cost) = &arguments.cost else { return Ok(quote!(::tidegate::Cost::ONE)) };
    let cost = cost.within(function)?;
    Ok(quote!(::tidegate::attribute::cost_of(#cost)))
}

fn algorithm_tokens(algorithm: Option<AlgorithmKind>) -> TokenStream {
    match algorithm {
        Some(kind) => {
            let variant = format_ident!("{kind:?}");
            quote!(::core::option::Option::Some(::tidegate::AlgorithmKind::#variant))
        }
        None => quote!(::core::option::Option::None),
    }
}

fn fail_tokens(fail: FailArgument) -> TokenStream {
    let variant = match fail {
        FailArgument::Local => quote!(Local),
        FailArgument::Open => quote!(Open),
        FailArgument::Closed => quote!(Closed),
    };
    quote!(::tidegate::OnStoreError::#variant)
}

/// Takes the other `rate_limit` attributes of the same function: all are checked together.
pub(crate) fn take_siblings(attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
    let is_ours = |attribute: &mut Attribute| {
        attribute.path().segments.last().is_some_and(|last| last.ident == "rate_limit")
    };
    attributes.extract_if(.., is_ours).collect()
}
