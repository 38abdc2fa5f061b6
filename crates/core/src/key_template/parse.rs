//! Parses a key template into its parts.

use super::{KeyPlaceholder, KeyTemplate, KeyTemplateError, TemplatePart};
use crate::Span;

pub(super) fn parse(template: &str) -> Result<(Vec<TemplatePart>, Option<Span>), KeyTemplateError> {
    let mut parser = TemplateParser { template, at: 0, parts: Vec::new() };
    let (length, most) = (template.len(), KeyTemplate::MAX_LENGTH);
    if length > most {
        return Err(parser.refuse_all(format!("{length} bytes: expected at most {most}")));
    }
    // A " +" before a placeholder is part of the name.
    let is_last = |(_, text): &(&str, &str)| !text.contains(['{', '}']);
    let buffer = match template.rsplit_once(" +").filter(is_last) {
        Some((names, text)) => {
            let buffer = buffer(text).map_err(|problem| {
                KeyTemplateError::refused(template, problem).at(names.len() + 1)
            })?;
            parser.template = names;
            Some(buffer)
        }
        None => None,
    };
    while let Some(next) = parser.rest().chars().next() {
        parser.step(next)?;
    }
    Ok((parser.finish()?, buffer))
}

/// Parses the buffer, such as `5s`: how much longer than needed keys are kept.
fn buffer(text: &str) -> Result<Span, String> {
    let expected =
        "expected how long keys are kept beyond their window, such as +5s, at most a day";
    let span: Option<Span> = text.parse().ok();
    span.filter(|span| *span <= KeyTemplate::MAX_BUFFER).ok_or(format!("\"+{text}\": {expected}"))
}

struct TemplateParser<'a> {
    template: &'a str,
    at: usize,
    parts: Vec<TemplatePart>,
}

impl<'a> TemplateParser<'a> {
    fn rest(&self) -> &'a str {
        self.template.get(self.at..).unwrap_or_default()
    }

    fn step(&mut self, next: char) -> Result<(), KeyTemplateError> {
        let rest = self.rest();
        if let Some(inner) = rest.strip_prefix("{{") {
            return self.doubled(inner);
        }
        if rest.starts_with("}}") {
            self.text("}", 2);
            return Ok(());
        }
        match next {
            '{' => self.placeholder(),
            '}' => Err(self.refuse(NEVER_OPENED)),
            _ if next.is_control() => {
                Err(self.refuse("a control character: expected printable text"))
            }
            _ => {
                self.text(next.encode_utf8(&mut [0; 4]), next.len_utf8());
                Ok(())
            }
        }
    }

    /// A literal brace, or a placeholder in a hash tag: a name in doubled braces is always meant as a
    /// placeholder.
    fn doubled(&mut self, inner: &str) -> Result<(), KeyTemplateError> {
        let name = inner.split_once("}}").map(|(name, _)| name);
        let Some(placeholder) = name.and_then(named) else {
            self.text("{", 2);
            return Ok(());
        };
        self.refuse_second(placeholder)?;
        self.text("{", 2);
        self.parts.push(TemplatePart::Placeholder(placeholder));
        self.at += placeholder.name().len();
        self.text("}", 2);
        Ok(())
    }

    fn placeholder(&mut self) -> Result<(), KeyTemplateError> {
        let Some((name, _)) = self.rest().get(1..).unwrap_or_default().split_once('}') else {
            return Err(self.refuse(NEVER_CLOSED));
        };
        let Some(placeholder) = named(name) else { return Err(self.unknown(name)) };
        self.refuse_second(placeholder)?;
        self.refuse_glued()?;
        self.parts.push(TemplatePart::Placeholder(placeholder));
        self.at += name.len() + 2;
        Ok(())
    }

    /// Each placeholder can occur once, and only one of the window placeholders.
    fn refuse_second(&self, placeholder: KeyPlaceholder) -> Result<(), KeyTemplateError> {
        let is_like = |part: &TemplatePart| match (part, placeholder) {
            (TemplatePart::Placeholder(KeyPlaceholder::Window(_)), KeyPlaceholder::Window(_)) => {
                true
            }
            (part, other) => *part == TemplatePart::Placeholder(other),
        };
        match self.parts.iter().any(is_like) {
            true => Err(self.refuse(TOO_MANY)),
            false => Ok(()),
        }
    }

    /// The values of two placeholders must be distinguishable: caller 1 in window 23 is not caller 12
    /// in window 3.
    fn refuse_glued(&self) -> Result<(), KeyTemplateError> {
        let is_glued = match self.parts.as_slice() {
            [.., TemplatePart::Placeholder(_)] => true,
            [.., TemplatePart::Placeholder(_), TemplatePart::Text(between)] => {
                between.bytes().all(|byte| byte.is_ascii_digit())
            }
            _ => false,
        };
        if is_glued { Err(self.refuse(GLUED)) } else { Ok(()) }
    }

    fn text(&mut self, text: &str, length: usize) {
        self.at += length;
        match self.parts.last_mut() {
            Some(TemplatePart::Text(before)) => before.push_str(text),
            _ => self.parts.push(TemplatePart::Text(text.to_owned())),
        }
    }

    fn finish(self) -> Result<Vec<TemplatePart>, KeyTemplateError> {
        match self.parts.contains(&TemplatePart::Placeholder(KeyPlaceholder::Entity)) {
            true => Ok(self.parts),
            false => Err(self.refuse_all(NO_ENTITY)),
        }
    }

    fn unknown(&self, name: &str) -> KeyTemplateError {
        let names: Vec<_> = KeyPlaceholder::ALL.iter().map(|known| known.name()).collect();
        let expected = names.join(", ");
        self.refuse(format!("unknown placeholder {name:?}: expected {expected}")).about(name)
    }

    fn refuse(&self, problem: impl Into<String>) -> KeyTemplateError {
        self.refuse_all(problem).at(self.at)
    }

    fn refuse_all(&self, problem: impl Into<String>) -> KeyTemplateError {
        KeyTemplateError::refused(self.template, problem)
    }
}

fn named(name: &str) -> Option<KeyPlaceholder> {
    KeyPlaceholder::ALL.iter().copied().find(|placeholder| placeholder.name() == name)
}

const NEVER_CLOSED: &str =
    "unclosed brace: expected a placeholder such as {entity}, or {{ for a literal brace";
const NEVER_OPENED: &str =
    "unopened brace: expected a placeholder such as {entity}, or }} for a literal brace";
const TOO_MANY: &str = "repeated placeholder: expected each once, and only one for the window";
const GLUED: &str = "adjacent placeholders: expected text between them that is not a \
                     number, or two callers could share a key";
const NO_ENTITY: &str = "a template without {entity}: all callers would share one key";
