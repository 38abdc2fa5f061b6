trait Mailer {
    #[tidegate::rate_limit(name = "a", quota = "5/second")]
    fn send(&self) -> Result<(), tidegate::Denied>;
}

#[tidegate::rate_limit(name = "b", quota = "5/second")]
struct Postman;

fn main() {}
