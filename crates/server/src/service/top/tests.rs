//! The lists of busiest and most denied keys, compared with exact counts.

use super::*;

fn subject(number: u64) -> Fingerprint {
    Fingerprint::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number)
}

fn ask(top: &TopKeys, slot: usize, number: u64, is_denied: bool) {
    let policy: Arc<str> = "api".into();
    let (who, name) = (subject(number), number.to_string());
    let seen = ObservedKey { who, policy: &policy, subject: who, entity: Some(&name) };
    top.observe(slot, seen, is_denied);
}

/// Draws numbers from a Zipf distribution: a number is about half as frequent as half that number.
struct Zipf {
    random: fastrand::Rng,
    weights: Vec<u64>,
}

impl Zipf {
    fn new(keys: u64) -> Self {
        let mut sum = 0;
        let weights = (1..=keys).map(|rank| {
            sum += 1_000_000_000 / rank;
            sum
        });
        Self { weights: weights.collect(), random: fastrand::Rng::with_seed(7) }
    }

    fn draw(&mut self) -> u64 {
        let most = *self.weights.last().unwrap();
        let point = self.random.u64(0..most);
        self.weights.partition_point(|sum| *sum <= point) as u64
    }
}

#[test]
fn lists_are_right_within_the_stated_error_on_a_zipf_load() {
    fastrand::seed(7);
    let (top, mut zipf) = (TopKeys::new(KeyMarks::under(None)), Zipf::new(200_000));
    let mut exact: HashMap<u64, (u64, u64)> = HashMap::new();
    for request in 0..1_000_000_u64 {
        let number = zipf.draw();
        let counts = exact.entry(number).or_default();
        counts.0 += 1;
        // After its first hundred, every request of a key is denied.
        let is_denied = counts.0 > 100;
        counts.1 += u64::from(is_denied);
        ask(&top, (request % 3) as usize, number, is_denied);
        if request == 400_000 {
            top.turn();
        }
    }
    let list = top.list(20);
    for denied in &list.denied {
        let busiest = list.busiest.iter().find(|key| key.key == denied.key);
        assert!(busiest.is_none_or(|key| key.count >= denied.count), "{denied:?} {busiest:?}");
    }
    for (keys, total, list_index) in
        [(&list.busiest, list.busiest_total, 0), (&list.denied, list.denied_total, 1)]
    {
        let count_of =
            |number: u64| if list_index == 0 { exact[&number].0 } else { exact[&number].1 };
        let all: u64 = exact.keys().map(|number| count_of(*number)).sum();
        assert!(total.abs_diff(all) < all / 20, "{total} of {all}");
        let bound = total / list.counters;
        for key in keys {
            let count = count_of(key.key.parse().unwrap());
            // The sampling error is about a square root: five standard deviations never occur.
            let chance = 5 * (16 * count).isqrt();
            assert!(key.count + chance >= count, "{key:?} came {count} times");
            assert!(key.count <= count + bound + chance, "{key:?} came {count} times");
            assert!(key.error <= bound, "{key:?}");
        }
        let first: Vec<u64> = keys.iter().take(5).map(|key| key.key.parse().unwrap()).collect();
        assert_eq!(first, [0, 1, 2, 3, 4]);
    }
}

#[test]
fn many_requests_are_counted_as_well_as_samples_can() {
    fastrand::seed(7);
    let (top, mut random) = (TopKeys::new(KeyMarks::under(None)), fastrand::Rng::with_seed(7));
    let mut often = 0;
    for _ in 0..5_000_000 {
        // One key makes a quarter of the requests, and a thousand keys make the others.
        let number = if random.u8(..4) == 0 { 0 } else { random.u64(1..1_000) };
        often += u64::from(number == 0);
        ask(&top, 0, number, false);
    }
    let list = top.list(1);
    let (first, chance) = (&list.busiest[0], 5 * (128 * often).isqrt());
    assert_eq!(first.key, "0");
    assert!(first.count.abs_diff(often) <= chance, "{first:?} came {often} times");
    assert!(list.busiest_total.abs_diff(5_000_000) < 5 * (128 * 5_000_000_u64).isqrt());
}

#[test]
fn few_requests_are_counted_exactly_and_are_over_after_two_minutes() {
    let top = TopKeys::new(KeyMarks::under(None));
    for number in [1, 2, 1, 3, 1] {
        ask(&top, 0, number, number == 1);
    }
    ask(&top, 1, 2, false);
    let shown = |keys: &[TopKey]| -> Vec<(String, u64)> {
        keys.iter().map(|key| (key.key.clone(), key.count)).collect()
    };
    let pairs = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect()
    };
    top.turn();
    assert_eq!(shown(&top.list(2).busiest), pairs(&[("1", 3), ("2", 2)]));
    assert_eq!(shown(&top.list(9).denied), pairs(&[("1", 3)]));
    top.turn();
    assert_eq!(shown(&top.list(9).busiest), pairs(&[]));
}

#[test]
fn keys_are_hashed_unless_they_may_be_shown() {
    let top = TopKeys::new(KeyMarks::under(None));
    let policy: Arc<str> = "api".into();
    let who = subject(7);
    let seen = ObservedKey { who, policy: &policy, subject: who, entity: None };
    top.observe(0, seen, false);
    assert_eq!(top.list(1).busiest[0].key, top.marks().of(who));
    let long = format!("\u{1b}[2J{}", "x".repeat(500));
    let seen = ObservedKey { who: subject(8), entity: Some(&long), ..seen };
    top.observe(0, seen, false);
    top.observe(0, seen, false);
    assert_eq!(top.list(1).busiest[0].key, format!("[2J{}", "x".repeat(61)));
}
