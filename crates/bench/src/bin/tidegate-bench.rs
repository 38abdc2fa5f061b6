//! The benchmarks, with an allocator that counts.

fn main() -> anyhow::Result<()> {
    tidegate_bench::run(|work| allocation_counter::measure(work).count_total)
}
