#[tidegate::rate_limit(name = "a", quota = "5/second", key = |user| user)]
async fn limited(tenant: u64, name: &str) -> Result<(), tidegate::Denied> {
    Ok(())
}

fn main() {}
