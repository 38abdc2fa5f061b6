#[tidegate::rate_limit(name = "a", quotas = "5/second")]
fn limited() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
