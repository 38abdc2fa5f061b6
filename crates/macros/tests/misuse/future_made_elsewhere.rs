use std::pin::Pin;

use tidegate::{Denied, rate_limit};

async fn elsewhere() -> Result<(), Denied> {
    Ok(())
}

#[rate_limit(name = "a", quota = "5/second")]
fn future() -> impl Future<Output = Result<(), Denied>> {
    elsewhere()
}

#[rate_limit(name = "b", quota = "5/second")]
fn boxed() -> Pin<Box<dyn Future<Output = Result<(), Denied>>>> {
    Box::pin(elsewhere())
}

fn main() {}
