//! The names of a policy's limits in metrics and in the admin API.

use tidegate::Rule;

/// Names each limit by its rate, followed by the algorithm if another limit has the same rate. Names are
/// unique, since Prometheus rejects a page with a duplicate series.
pub(crate) fn limit_names(rules: &[Rule]) -> Vec<String> {
    let rates: Vec<String> = rules.iter().map(|rule| rule.limit.rate()).collect();
    let names = rules.iter().zip(&rates).map(|(rule, rate)| {
        let is_alone = rates.iter().filter(|other| *other == rate).count() == 1;
        if is_alone { rate.clone() } else { format!("{rate} {}", rule.limit.kind()) }
    });
    numbered(&names.collect::<Vec<_>>())
}

/// Numbers duplicate names: a file can list the same limit twice.
fn numbered(names: &[String]) -> Vec<String> {
    let numbered = names.iter().enumerate().map(|(index, name)| {
        let earlier = names.iter().take(index).filter(|other| *other == name).count();
        if earlier == 0 { name.clone() } else { format!("{name} {}", earlier + 1) }
    });
    numbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Plan;
    use tidegate::config::PolicySource;

    fn names(limits: &str) -> Vec<String> {
        let text = format!("policies: [{{ name: p, key: [user], limits: [{limits}] }}]");
        let plan = Plan::compile(&PolicySource::new("test", text).unwrap()).unwrap();
        limit_names(plan.policies()[0].rules())
    }

    #[test]
    fn no_two_limits_have_one_name() {
        assert_eq!(names("3/day, 5/day burst 2"), ["3/day", "5/day burst 2"]);
        assert_eq!(names("3/day, 3/calendar-day"), ["3/day", "3/calendar-day"]);
        let by_another = "{ quota: 3, per: 1d, algorithm: fixed-window }";
        assert_eq!(
            names(&format!("3/day, {by_another}, 3/calendar-day, 3/day")),
            [
                "3/day sliding-window",
                "3/day fixed-window",
                "3/calendar-day",
                "3/day sliding-window 2"
            ]
        );
    }
}
