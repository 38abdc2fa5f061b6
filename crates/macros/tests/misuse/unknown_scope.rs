#[tidegate::rate_limit(name = "a", quota = "5/second", scope = tenant)]
fn limited() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
