#[tidegate::rate_limit(name = "a", quota = "5/second")]
fn limited() {}

#[tidegate::rate_limit(name = "b", quota = "5/second")]
const fn constant() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
