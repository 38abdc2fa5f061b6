//! What a request costs a policy.

use tidegate_core::{Cost, MAX_COUNT};

use crate::attributes::Resolved;

/// What a request costs this policy, for each unit that it costs at all.
#[derive(Debug)]
pub(crate) enum CostSource {
    Fixed(Cost),
    Attribute { attribute: usize, default: Cost },
}

impl CostSource {
    /// Of one unit.
    pub(crate) fn each(&self, request: &Resolved<'_>) -> Cost {
        match self {
            Self::Fixed(each) => *each,
            Self::Attribute { attribute, default } => {
                request.raw(*attribute).map_or(*default, read_cost)
            }
        }
    }
}

/// A cost that cannot be read fits no limit: whoever sends it must not get away with a small one.
fn read_cost(value: &[u8]) -> Cost {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let units = if is_number { text.parse().ok() } else { None };
    units.and_then(|units| Cost::new(units).ok()).unwrap_or_else(too_much)
}

/// What costs nothing stays a peek.
pub(crate) fn times(cost: Cost, each: Cost) -> Cost {
    cost.get()
        .checked_mul(each.get())
        .and_then(|units| Cost::new(units).ok())
        .unwrap_or_else(too_much)
}

/// More than any limit holds.
fn too_much() -> Cost {
    Cost::new(MAX_COUNT).map_or(Cost::ONE, |most| most.plus(Cost::ONE))
}
