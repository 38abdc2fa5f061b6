fn main() {
    let limiter = tidegate::Limiter::builder().limit("5/minute").build().unwrap();
    let _ = limiter.check_now(&5_u8);
}
