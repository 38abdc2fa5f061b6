//! The cost of a request under a policy.

use std::fmt;

use tidegate_core::{Cost, MAX_COUNT};

use crate::files::attributes::ResolvedAttributes;
use crate::files::problem::brief;

/// Where the cost of a request comes from. The result is multiplied by the cost that the caller gives.
#[derive(Debug)]
pub(crate) enum CostSource {
    Fixed(Cost),
    Attribute { attribute: usize, name: Box<str>, default: Cost, min: Cost },
}

/// An attribute that should give a request's cost, but does not.
///
/// ```
/// use tidegate::config::PolicySource;
/// use tidegate::{Cost, Plan};
///
/// let text = "policies: [{ name: a, key: [], limits: [9/s], cost: { attribute: tokens } }]";
/// let plan = Plan::compile(&PolicySource::new("limits.yaml", text)?)?;
/// let charges = plan.charges(&[("tokens", "many")], Cost::ONE);
/// assert_eq!(
///     charges.cost_fault().map(ToString::to_string).as_deref(),
///     Some("tokens is \"many\": expected a whole number from 0 to 1000000000000000")
/// );
/// # Ok::<(), tidegate::config::FileProblems>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostFault {
    attribute: Box<str>,
    value: String,
}

impl CostFault {
    /// The attribute.
    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// Its value, or the beginning of a long one.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What its value should have been.
    pub fn expected(&self) -> String {
        format!("a whole number from 0 to {MAX_COUNT}")
    }
}

impl fmt::Display for CostFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {:?}: expected {}", self.attribute, self.value, self.expected())
    }
}

impl CostSource {
    /// The cost of one unit.
    pub(crate) fn unit_cost(&self, request: &ResolvedAttributes<'_>) -> Result<Cost, CostFault> {
        match self {
            Self::Fixed(each) => Ok(*each),
            Self::Attribute { attribute, name, default, min } => {
                let Some(value) = request.raw(*attribute) else { return Ok(*default) };
                let units = read_cost(value).ok_or_else(|| CostFault {
                    attribute: name.clone(),
                    value: brief(&String::from_utf8_lossy(value)),
                });
                units.map(|units| if units.get() < min.get() { *min } else { units })
            }
        }
    }
}

fn read_cost(value: &[u8]) -> Option<Cost> {
    let text = std::str::from_utf8(value).ok()?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let units = if is_number { text.parse().ok() } else { None };
    Cost::new(units?).ok()
}

/// Multiplies costs. A cost of zero stays a peek.
pub(crate) fn multiplied_cost(cost: Cost, each: Cost) -> Cost {
    cost.get()
        .checked_mul(each.get())
        .and_then(|units| Cost::new(units).ok())
        .unwrap_or_else(cost_above_limits)
}

/// More than any limit holds: a request that costs this much never passes.
pub(crate) fn cost_above_limits() -> Cost {
    Cost::new(MAX_COUNT).map_or(Cost::ONE, |most| most.plus(Cost::ONE))
}
