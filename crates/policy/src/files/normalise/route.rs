//! Route templates such as `/users/{id}`, which map many paths to one key.

use crate::files::matcher::PathGlob;
use crate::files::settings::PathCase;

/// Templates such as `/users/{id}`, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouteTemplates {
    templates: Vec<(PathGlob, Box<[u8]>)>,
    case: PathCase,
}

impl RouteTemplates {
    /// Creates an empty list, for paths with or without letter case.
    pub(crate) const fn new(case: PathCase) -> Self {
        Self { templates: Vec::new(), case }
    }

    pub(crate) const fn case(&self) -> PathCase {
        self.case
    }

    /// Adds a template. The error says what is wrong with it.
    pub(crate) fn push(&mut self, template: &str) -> Result<(), String> {
        let mut glob = String::new();
        let normal = template.trim_end_matches('/');
        let Some(segments) = normal.strip_prefix('/') else {
            return Err("expected a path such as /users/{id}".to_owned());
        };
        for segment in segments.split('/') {
            glob.push('/');
            match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                Some("") => return Err("{} has no name: expected one, such as {id}".to_owned()),
                Some(name) if name.contains(['{', '}']) => return Err(BRACES.to_owned()),
                Some(name) if name.starts_with('*') => glob.push_str("**"),
                Some(_) => glob.push('*'),
                None if segment.contains(['{', '}']) => return Err(BRACES.to_owned()),
                None => glob.push_str(segment),
            }
        }
        let glob = PathGlob::of_paths(&glob, self.case)?;
        self.templates.push((glob, template.as_bytes().into()));
        Ok(())
    }

    /// The first template that a path in normal form matches. Paths that match none share one key:
    /// otherwise made-up paths would get a new counter each.
    pub(crate) fn template(&self, path: &[u8]) -> &[u8] {
        let found = self.templates.iter().find(|(glob, _)| glob.matches(path));
        found.map_or(&[], |(_, template)| template)
    }
}

const BRACES: &str = "a brace within a segment: expected {name} as a whole segment";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_template_that_fits_is_the_key() {
        let mut routes = RouteTemplates::default();
        for template in ["/users/me", "/users/{id}", "/files/{*path}", "/v1/{kind}/list"] {
            routes.push(template).unwrap();
        }
        for (path, template) in [
            ("/users/me", "/users/me"),
            ("/users/42", "/users/{id}"),
            ("/users/42/x", ""),
            ("/files/a/b/c", "/files/{*path}"),
            ("/v1/cats/list", "/v1/{kind}/list"),
            ("/", ""),
        ] {
            assert_eq!(routes.template(path.as_bytes()), template.as_bytes(), "{path}");
        }
        for (template, part) in [
            ("users", "expected a path"),
            ("/{}", "has no name"),
            ("/a{id}", "a brace within a segment"),
            ("/{a}{b}", "a brace within a segment"),
        ] {
            assert!(routes.push(template).unwrap_err().contains(part), "{template}");
        }
    }
}
