//! The code on docs/clients.md.

const PAGE: &str = include_str!("../../../../docs/clients.md");
const MARK: &str = "<!-- run: ";

/// The code block below the mark with this name.
#[track_caller]
pub(crate) fn snippet(name: &str) -> &'static str {
    let (_, after) = PAGE
        .split_once(&format!("{MARK}{name} -->\n```"))
        .unwrap_or_else(|| panic!("docs/clients.md has no code {name:?}"));
    let (_, code) = after.split_once('\n').unwrap();
    let (code, _) = code.split_once("\n```\n").unwrap();
    code
}

/// The names of all marks.
pub(crate) fn names() -> Vec<&'static str> {
    PAGE.lines().filter_map(|line| line.strip_prefix(MARK)?.strip_suffix(" -->")).collect()
}

/// Nobody runs what has no mark.
#[test]
fn every_program_of_the_page_is_marked() {
    let fences = PAGE.lines().filter(|line| {
        let language = line.strip_prefix("```");
        language.is_some_and(|name| ["python", "js", "go", "java", "php"].contains(&name))
    });
    let is_code = |name: &&&str| !["limits.yaml", "expected"].contains(name);
    assert_eq!(fences.count(), names().iter().filter(is_code).count());
}
