//! Traffic models: when requests come, and from which source.

mod attack;
mod crowd;
mod poisson;

use std::fmt;
use std::str::FromStr;

use tidegate::{Quota, QuotaError, Span, Timestamp};

use self::attack::AttackTraffic;
use self::crowd::CrowdTraffic;
pub(crate) use self::poisson::{PoissonTraffic, RateShape, seconds};

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Timestamp,
    /// Its source; each source has counters of its own.
    pub source: u32,
}

/// Requests in the order of their times. A model learns of denials, as a client does.
pub trait TrafficStream {
    /// The next request; `None` at the end.
    fn next(&mut self) -> Option<Arrival>;

    /// Called when the last request was denied, with the delay after which it may be retried.
    fn on_denied(&mut self, _arrival: Arrival, _retry_after: Option<Span>) {}
}

/// The settings of a traffic model.
#[derive(Clone, Copy, Debug)]
pub struct TrafficSettings {
    /// The limit that the traffic is aimed at.
    pub quota: Quota,
    /// When it begins: at the start of a window.
    pub start: Timestamp,
    /// For how long.
    pub span: Span,
    /// Requests per second of all sources together, for models that have a rate.
    pub rate: f64,
    /// Sources, or clients in a crowd.
    pub sources: u32,
    /// The seed for everything random.
    pub seed: u64,
}

macro_rules! models {
    ($($Name:ident $name:literal $about:literal,)*) => {
        /// A traffic model, by name.
        ///
        /// ```
        /// use tidegate_sim::traffic::TrafficModel;
        ///
        /// assert_eq!("poisson".parse(), Ok(TrafficModel::Poisson));
        /// assert!("possion".parse::<TrafficModel>().unwrap_err().to_string().contains("poisson"));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TrafficModel {
            $(#[doc = concat!("`", $name, "`: ", $about, ".")] $Name,)*
        }

        impl TrafficModel {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$Name),*];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$Name => $name),* }
            }

            /// What it does, in a few words.
            pub const fn about(self) -> &'static str {
                match self { $(Self::$Name => $about),* }
            }
        }
    };
}

models! {
    BurstAtBoundary "burst-at-boundary"
        "a full quota right before a window's edge and another right after it",
    Greedy "greedy" "a full quota right before an edge, and then all that is ever admitted",
    Poisson "poisson" "independent requests at a constant rate",
    OnOff "on-off" "silence, and now and then a burst at five times the rate",
    Diurnal "diurnal" "a rate that rises and falls once, as between night and day",
    Zipf "zipf" "many sources, the n-th of which comes 1/n as often as the first",
    Crowd "crowd" "clients that come together, share one limit, and retry exactly when allowed",
    CrowdJitter "crowd-jitter" "the same clients, which add up to one window of jitter",
}

impl TrafficModel {
    /// Starts the traffic.
    pub fn start(self, settings: &TrafficSettings) -> Box<dyn TrafficStream> {
        match self {
            Self::BurstAtBoundary => Box::new(AttackTraffic::burst(settings)),
            Self::Greedy => Box::new(AttackTraffic::greedy(settings)),
            Self::Poisson => Box::new(PoissonTraffic::new(settings, RateShape::Even)),
            Self::OnOff => {
                Box::new(PoissonTraffic::new(settings, RateShape::on_off(settings.quota.window())))
            }
            Self::Diurnal => {
                Box::new(PoissonTraffic::new(settings, RateShape::Diurnal(settings.span)))
            }
            Self::Zipf => Box::new(PoissonTraffic::new(settings, RateShape::Even)),
            Self::Crowd => Box::new(CrowdTraffic::new(settings, false)),
            Self::CrowdJitter => Box::new(CrowdTraffic::new(settings, true)),
        }
    }

    /// How many windows it takes to show the model.
    pub const fn windows(self) -> u64 {
        match self {
            Self::BurstAtBoundary | Self::Greedy => 3,
            Self::Crowd | Self::CrowdJitter => 8,
            Self::Poisson | Self::OnOff | Self::Zipf => 10,
            Self::Diurnal => 30,
        }
    }

    /// The default number of sources, or clients.
    pub const fn sources(self, quota: &Quota) -> u32 {
        match self {
            Self::Zipf => 1_000,
            Self::Crowd | Self::CrowdJitter => {
                let clients = quota.limit().saturating_mul(5);
                if clients > 100_000 { 100_000 } else { clients as u32 }
            }
            _ => 1,
        }
    }

    /// The default rate, as a multiple of the limit.
    pub const fn load(self) -> f64 {
        match self {
            Self::Zipf => 20.0,
            Self::Diurnal => 1.0,
            _ => 1.2,
        }
    }
}

impl FromStr for TrafficModel {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        Self::ALL.iter().copied().find(|model| model.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|model| model.name()).collect();
            QuotaError::refused(text, format!("unknown traffic; expected {}", names.join(", ")))
        })
    }
}

impl fmt::Display for TrafficModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(model: TrafficModel) -> TrafficSettings {
        let quota: Quota = "100/minute".parse().unwrap();
        TrafficSettings {
            quota,
            start: Timestamp::from_secs(600),
            span: Span::from_secs(60 * model.windows()),
            rate: 2.0,
            sources: model.sources(&quota),
            seed: 1,
        }
    }

    fn all(model: TrafficModel, setting: &TrafficSettings) -> Vec<Arrival> {
        let mut traffic = model.start(setting);
        std::iter::from_fn(|| traffic.next()).collect()
    }

    #[test]
    fn every_model_comes_in_order_within_its_span_and_again_the_same() {
        for model in TrafficModel::ALL {
            let setting = setting(*model);
            let arrivals = all(*model, &setting);
            assert!(arrivals.len() > 100, "{model}: {}", arrivals.len());
            assert!(arrivals.is_sorted_by_key(|arrival| arrival.at), "{model}");
            let end = setting.start + setting.span;
            let inside = |arrival: &Arrival| arrival.at >= setting.start && arrival.at < end;
            assert!(arrivals.iter().all(inside), "{model}");
            assert_eq!(arrivals, all(*model, &setting), "{model}");
            assert_eq!(model.name().parse(), Ok(*model));
        }
    }

    #[test]
    fn streams_have_the_rate_that_was_asked_for() {
        for model in
            [TrafficModel::Poisson, TrafficModel::Diurnal, TrafficModel::Zipf, TrafficModel::OnOff]
        {
            let span = Span::from_secs(60_000);
            let setting = TrafficSettings { span, ..setting(model) };
            let rate = all(model, &setting).len() as f64 / 60_000.0;
            assert!((1.8..2.2).contains(&rate), "{model}: {rate}");
        }
    }

    #[test]
    fn bursts_come_in_silence() {
        let setting =
            TrafficSettings { span: Span::from_secs(60_000), ..setting(TrafficModel::OnOff) };
        let mut seconds = vec![0_u32; 60_000];
        for arrival in all(TrafficModel::OnOff, &setting) {
            seconds[(arrival.at.since(setting.start).as_micros() / 1_000_000) as usize] += 1;
        }
        let silent = seconds.iter().filter(|count| **count == 0).count();
        assert!(silent > 40_000, "{silent}");
    }

    #[test]
    fn the_boundary_attacker_is_the_one_of_the_textbook() {
        let quota: Quota = "5/minute".parse().unwrap();
        let arrivals = all(
            TrafficModel::BurstAtBoundary,
            &TrafficSettings { quota, ..setting(TrafficModel::BurstAtBoundary) },
        );
        let offsets: Vec<_> = arrivals.iter().map(|a| a.at.as_micros() / 1_000_000 - 600).collect();
        assert_eq!(offsets, [59, 59, 59, 59, 59, 61, 61, 61, 61, 61]);
    }
}
