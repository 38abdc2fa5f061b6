#[tidegate::rate_limit(name = "a", quota = ["5/second", "100/minit"])]
fn limited() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
