use super::*;
use crate::algorithm::FixedWindow;
use crate::{AlgorithmKind, CalendarPeriod, Limit};

fn template(text: &str) -> KeyTemplate {
    text.parse().unwrap()
}

fn limit(kind: AlgorithmKind, quota: &str) -> Limit {
    Limit::new(kind, &quota.parse().unwrap()).unwrap()
}

#[test]
fn every_placeholder_has_a_name_of_its_own() {
    for placeholder in KeyPlaceholder::ALL {
        let entity = if *placeholder == KeyPlaceholder::Entity { "" } else { "{entity}:" };
        let template = template(&format!("{entity}{placeholder}"));
        assert!(template.has(*placeholder) && template.has(KeyPlaceholder::Entity));
        assert_eq!(template.window().is_some(), placeholder.name().starts_with("window"));
    }
}

#[test]
fn doubled_braces_are_text_or_a_hash_tag() {
    let entity = TemplatePart::Placeholder(KeyPlaceholder::Entity);
    let text = |text: &str| TemplatePart::Text(text.to_owned());
    for written in ["a{{entity}}:é", "a{{{entity}}}:é"] {
        assert_eq!(template(written).parts(), [text("a{"), entity.clone(), text("}:é")]);
        assert_eq!(template(written).to_string(), written);
    }
    assert_eq!(template("{{a}}{entity}").parts(), [text("{a}"), entity]);
}

#[test]
fn errors_tell_where_and_what_was_expected() {
    for (template, position, expected) in [
        ("", None, "without {entity}"),
        ("rlaas:{window_index}", None, "without {entity}"),
        ("é:{user}", Some(3), "expected entity, limit, window_index"),
        ("{}", Some(1), "unknown placeholder \"\""),
        ("a:{entity", Some(3), "{{ for a literal brace"),
        ("{entity}}", Some(9), "}} for a literal brace"),
        ("{entity}{entity}", Some(9), "expected each once"),
        ("{entity}{{entity}}", Some(9), "expected each once"),
        ("{entity}:{window_index}:{window_start}", Some(25), "only one for the window"),
        ("{entity}{window_index}", Some(9), "expected text between"),
        ("{limit}{entity}", Some(8), "expected text between"),
        ("{entity}10{window_index}", Some(11), "expected text between"),
        ("{entity}\n", Some(9), "a control character"),
    ] {
        let error = template.parse::<KeyTemplate>().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.position(), position, "{text}");
        assert!(text.contains(expected) && text.contains(&format!("{template:?}")), "{text}");
    }
    let long = format!("{{entity}}{:300}", "").parse::<KeyTemplate>().unwrap_err();
    assert_eq!(long.problem(), "308 bytes: expected at most 256");
}

#[test]
fn a_limit_must_have_a_layout_and_windows_that_can_be_told() {
    let windows = ["{entity}:{window_index}", "{entity}:{window_start}"].map(template);
    let log = template("{entity}");
    for kind in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow] {
        assert!(windows.iter().all(|template| template.check(&limit(kind, "5/minute")).is_ok()));
        assert!(log.check(&limit(kind, "5/minute")).is_err());
        let uneven = limit(kind, "5/1500ms");
        let fits = windows.each_ref().map(|template| template.check(&uneven).is_ok());
        assert_eq!(fits, [true, false]);
        assert!(template("{entity}:{window_start_ms}").check(&uneven).is_ok());
    }
    let sliding_log = limit(AlgorithmKind::SlidingLog, "5/1500ms");
    assert!(log.check(&sliding_log).is_ok() && windows[0].check(&sliding_log).is_err());
    let bucket = limit(AlgorithmKind::TokenBucket, "5/minute");
    let error = log.check(&bucket).unwrap_err().to_string();
    assert!(error.contains("expected fixed-window"), "{error}");
}

#[test]
fn of_the_calendar_only_days_are_counted_from_the_epoch() {
    let template = template("{entity}:{window_start}");
    let fits =
        |calendar| template.check(&FixedWindow::by_calendar(5, calendar).unwrap().into()).is_ok();
    assert_eq!(
        [CalendarPeriod::Day, CalendarPeriod::Week, CalendarPeriod::Month].map(fits),
        [true, false, false]
    );
}

#[test]
fn a_template_may_say_how_long_keys_are_kept() {
    let template: KeyTemplate = "gw:{entity}:{window_start} +5s".parse().unwrap();
    assert_eq!(template.buffer(), Some(crate::Span::from_secs(5)));
    let plain: KeyTemplate = "gw:{entity}:{window_start}".parse().unwrap();
    assert_eq!((plain.parts(), plain.buffer()), (template.parts(), None));
    assert_eq!(template.to_string(), "gw:{entity}:{window_start} +5s");
    for text in ["gw:{entity} +", "gw:{entity} +5", "gw:{entity} +2d", "gw:{entity} +soon"] {
        let error = text.parse::<KeyTemplate>().unwrap_err();
        assert_eq!(error.position(), Some(13), "{error}");
        assert!(error.to_string().contains("such as +5s"), "{error}");
    }
}
