#[tidegate::rate_limit(name = "a", quota = "5/second", key = |user: u64| user)]
fn typed(user: u64) -> Result<(), tidegate::Denied> {
    Ok(())
}

#[tidegate::rate_limit(name = "b", quota = "5/second", key = |&user| user)]
fn pattern(user: u64) -> Result<(), tidegate::Denied> {
    Ok(())
}

#[tidegate::rate_limit(name = "c", quota = "5/second", key = user)]
fn no_closure(user: u64) -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
