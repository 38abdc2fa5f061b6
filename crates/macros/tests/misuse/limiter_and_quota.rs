static LIMITER: std::sync::OnceLock<tidegate::Limiter> = std::sync::OnceLock::new();

#[tidegate::rate_limit(name = "a", quota = "5/second", limiter = LIMITER.get().unwrap())]
fn limited() -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
