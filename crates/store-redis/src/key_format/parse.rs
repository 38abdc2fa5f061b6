//! From a template's text to its parts.

use super::{KeyFormatError, Window};

/// A piece of a key's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    Entity,
    Limit,
    Window(Window),
}

/// The longest template, in bytes.
const LONGEST: usize = 256;

const PLACEHOLDERS: &str =
    "expected {entity}, {limit}, {window_index}, {window_start} or {window_start_ms}";

pub(super) fn parse(template: &str) -> Result<Vec<Part>, KeyFormatError> {
    let mut parser = Parser { template, at: 0, parts: Vec::new() };
    if template.len() > LONGEST {
        let problem = format!("{} bytes; expected at most {LONGEST}", template.len());
        return Err(parser.refuse_all(problem));
    }
    while let Some(next) = parser.rest().chars().next() {
        parser.step(next)?;
    }
    parser.finish()
}

struct Parser<'a> {
    template: &'a str,
    at: usize,
    parts: Vec<Part>,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.template.get(self.at..).unwrap_or_default()
    }

    fn step(&mut self, next: char) -> Result<(), KeyFormatError> {
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
            '}' => Err(self.refuse("a brace that closes nothing; expected }} for the character")),
            _ if next.is_control() => {
                Err(self.refuse("a control character; expected a text that can be read"))
            }
            _ => {
                self.text(next.encode_utf8(&mut [0; 4]), next.len_utf8());
                Ok(())
            }
        }
    }

    /// A brace that belongs to the key, or a placeholder in a hash tag: nobody wants the word
    /// itself there.
    fn doubled(&mut self, inner: &str) -> Result<(), KeyFormatError> {
        let name = inner.split_once("}}").map(|(name, _)| name);
        let tagged = name.and_then(|name| Some((part_of(name)?, name.len())));
        let Some((part, length)) = tagged else {
            self.text("{", 2);
            return Ok(());
        };
        self.refuse_second(&part)?;
        self.text("{", 2);
        self.parts.push(part);
        self.at += length;
        self.text("}", 2);
        Ok(())
    }

    fn placeholder(&mut self) -> Result<(), KeyFormatError> {
        let Some((name, _)) = self.rest().get(1..).unwrap_or_default().split_once('}') else {
            return Err(self.refuse("a brace that is never closed; expected {{ for the character"));
        };
        let Some(part) = part_of(name) else {
            return Err(self.refuse(&format!("unknown placeholder {name:?}; {PLACEHOLDERS}")));
        };
        self.refuse_second(&part)?;
        self.parts.push(part);
        self.at += name.len() + 2;
        Ok(())
    }

    /// Each may be said once, and windows in one way.
    fn refuse_second(&self, part: &Part) -> Result<(), KeyFormatError> {
        let is_window = |part: &Part| matches!(part, Part::Window(_));
        if is_window(part) && self.parts.iter().any(is_window) {
            return Err(self.refuse("a second placeholder of a window; expected only one"));
        }
        if self.parts.contains(part) {
            return Err(self.refuse("a placeholder for the second time; expected each only once"));
        }
        Ok(())
    }

    fn text(&mut self, text: &str, length: usize) {
        self.at += length;
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
    }

    fn finish(self) -> Result<Vec<Part>, KeyFormatError> {
        match self.parts.contains(&Part::Entity) {
            true => Ok(self.parts),
            false => Err(self
                .refuse_all("all would share one counter; expected {entity} somewhere".to_owned())),
        }
    }

    fn refuse(&self, problem: &str) -> KeyFormatError {
        KeyFormatError::new(self.template, Some(self.at), problem.to_owned())
    }

    fn refuse_all(&self, problem: String) -> KeyFormatError {
        KeyFormatError::new(self.template, None, problem)
    }
}

fn part_of(name: &str) -> Option<Part> {
    Some(match name {
        "entity" => Part::Entity,
        "limit" => Part::Limit,
        "window_index" => Part::Window(Window::Index),
        "window_start" => Part::Window(Window::Start),
        "window_start_ms" => Part::Window(Window::StartMillis),
        _ => return None,
    })
}
