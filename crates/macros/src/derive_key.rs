//! Expands `#[derive(Key)]`: each field is a part of the key, in the order of the fields.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Result, parse_quote};

/// The implementation of `Key` for a type.
pub(crate) fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    let variants = match &input.data {
        Data::Struct(data) if data.fields.is_empty() => {
            return Err(Error::new(input.ident.span(), NO_FIELDS));
        }
        Data::Struct(data) => vec![Variant::of(quote!(Self), None, &data.fields)],
        Data::Enum(data) if data.variants.is_empty() => {
            return Err(Error::new(input.ident.span(), NO_FIELDS));
        }
        Data::Enum(data) => {
            let variants = data.variants.iter().map(|variant| {
                let (ident, name) = (&variant.ident, variant.ident.to_string());
                Variant::of(quote!(Self::#ident), Some(name), &variant.fields)
            });
            variants.collect()
        }
        Data::Union(_) => return Err(Error::new(input.ident.span(), NO_UNION)),
    };
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::tidegate::Key));
    }
    let (name, (implementation, types, bounds)) = (&input.ident, input.generics.split_for_impl());
    let parts = variants.iter().map(|variant| variant.arm(&format_ident!("each_part")));
    let texts = variants.iter().map(|variant| variant.arm(&format_ident!("each_text")));
    let text = single_field(&variants).map(|pattern| {
        quote! {
            fn text(&self) -> ::core::option::Option<::std::string::String> {
                let #pattern = self;
                ::tidegate::Key::text(field_0)
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #implementation ::tidegate::Key for #name #types #bounds {
            fn each_part(&self, mut part: impl ::core::ops::FnMut(&[u8])) {
                match self { #(#parts)* }
            }

            fn each_text(&self, mut part: impl ::core::ops::FnMut(&[u8])) {
                match self { #(#texts)* }
            }

            #text
        }
    })
}

/// A struct, or one variant of an enum.
struct Variant {
    /// Binds `field_0`, `field_1` and so on.
    pattern: TokenStream,
    /// The name of the variant, which is a part of its own: variants with equal fields are different keys.
    name: Option<String>,
    fields: Vec<Ident>,
}

impl Variant {
    fn of(path: TokenStream, name: Option<String>, fields: &Fields) -> Self {
        let bound: Vec<_> = (0..fields.len()).map(|index| format_ident!("field_{index}")).collect();
        let pattern = match fields {
            Fields::Named(named) => {
                let names = named.named.iter().map(|field| &field.ident);
                quote!(#path { #(#names: #bound),* })
            }
            Fields::Unnamed(_) => quote!(#path(#(#bound),*)),
            Fields::Unit => quote!(#path),
        };
        Self { pattern, name, fields: bound }
    }

    /// Calls `part` with the parts of each field, by the method `each`.
    fn arm(&self, each: &Ident) -> TokenStream {
        let Self { pattern, name, fields } = self;
        let name = name.iter();
        quote! {
            #pattern => {
                #(part(#name.as_bytes());)*
                #(::tidegate::Key::#each(#fields, &mut part);)*
            }
        }
    }
}

/// The pattern of a struct with one field: it is the same key as the field, also as text.
fn single_field(variants: &[Variant]) -> Option<&TokenStream> {
    match variants {
        [Variant { pattern, name: None, fields }] if fields.len() == 1 => Some(pattern),
        _ => None,
    }
}

const NO_FIELDS: &str = "a key needs something that distinguishes callers: expected a field";
const NO_UNION: &str = "a union cannot be a key: expected a struct or an enum";
