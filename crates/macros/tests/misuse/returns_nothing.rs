#[tidegate::rate_limit(name = "a", quota = "5/second")]
fn limited() {}

#[tidegate::rate_limit(name = "b", quota = "5/second")]
async fn optional() -> Option<u64> {
    None
}

fn main() {}
