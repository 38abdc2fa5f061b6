//! The servers under measurement, ours and the bare ones, with the allocator of `tidegate` itself.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    tidegate_bench::serve()
}
