//! Measures the step from a request to its charges, with plans of more and more policies.

use std::fmt::Write as _;
use std::hint::black_box;

use tidegate::config::PolicySource;
use tidegate::{Cost, Plan};

use crate::Allocations;
use crate::figures::Figures;
use crate::stopwatch::Stopwatch;
use crate::table;

/// Requests of tenants that have ten policies each.
pub(crate) fn compare(
    rounds: usize,
    requests: usize,
    allocations: Allocations,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    let mut smallest = None;
    for policies in [10, 1_000, 10_000] {
        let tenants = policies / 10;
        let text = plan_text(tenants);
        let compiling = Stopwatch::start();
        let plan = Plan::compile(&PolicySource::new("bench.yaml", text)?)?;
        let compiled = compiling.nanos() / 1e6;
        let names: Vec<String> = (0..1_024).map(|n| format!("tenant-{}", n % tenants)).collect();
        let ask = || {
            for tenant in names.iter().cycle().take(requests) {
                black_box(plan.charges(&request(tenant), Cost::ONE));
            }
        };
        ask();
        let mut nanos: Vec<f64> = (0..rounds)
            .map(|_| {
                let watch = Stopwatch::start();
                ask();
                watch.nanos() / requests as f64
            })
            .collect();
        nanos.sort_by(f64::total_cmp);
        let median = nanos.get(nanos.len() / 2).copied().unwrap_or(f64::NAN);
        let base = *smallest.get_or_insert(median);
        figures.add(format!("{policies} policies"), "µs", median / 1e3, []);
        let counted = allocations(&mut || ask());
        rows.push(vec![
            policies.to_string(),
            plan.charges(&request("tenant-0"), Cost::ONE).charges().len().to_string(),
            format!("{median:.0}"),
            format!("{:.2}", median / base),
            format!("{:.4}", counted as f64 / requests as f64),
            format!("{compiled:.0}"),
        ]);
    }
    let header = [
        "policies",
        "charges a request",
        "ns a request",
        "of the first",
        "allocations",
        "ms to compile",
    ];
    table::print("From a request to its charges", &header.map(str::to_owned), &rows);
    Ok(())
}

fn request(tenant: &str) -> [(&'static str, &str); 5] {
    [
        ("tenant", tenant),
        ("user", "42"),
        ("path", "/api/3/items"),
        ("method", "GET"),
        ("ip", "203.0.113.9"),
    ]
}

/// Ten policies per tenant, of which two apply to a request: one to its path, and one to all.
fn plan_text(tenants: usize) -> String {
    let mut text = String::from("policies:\n");
    for tenant in 0..tenants {
        for path in 0..9 {
            let _ = writeln!(
                text,
                "  - {{ name: t{tenant}-{path}, match: {{ tenant: tenant-{tenant}, path: /api/{path}/** }}, \
                 key: [tenant, user], limits: [100/minute] }}"
            );
        }
        let _ = writeln!(
            text,
            "  - {{ name: t{tenant}, match: {{ tenant: tenant-{tenant} }}, key: [ip], limits: [1000/minute] }}"
        );
    }
    text
}
