#[derive(tidegate::Key)]
struct Nobody;

fn main() {}
