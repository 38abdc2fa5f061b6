#[tidegate::rate_limit(quota = "5/second")]
fn nameless() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
