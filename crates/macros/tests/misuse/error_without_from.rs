struct MyError;

#[tidegate::rate_limit(name = "a", quota = "5/second")]
fn limited() -> Result<(), MyError> {
    Ok(())
}

fn main() {}
