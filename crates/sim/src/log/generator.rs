//! Generates synthetic logs to try things out: the same log for the same seed.

use std::fmt::Write as _;
use std::io::{self, Write};

use tidegate::{Span, Timestamp};
use tidegate_core::CivilDate;

use super::LogLineFormat;
use super::time::MONTHS;
use crate::random::{SeededRandom, Zipf};
use crate::traffic::{PoissonTraffic, RateShape, TrafficStream as _};

/// Writes days of ordinary traffic: callers by Zipf's law, busier by day than by night, a few lines
/// out of order; and an hour of an attack on the login.
///
/// ```
/// use tidegate_sim::log::{LogLineFormat, LogGenerator};
///
/// let generator = LogGenerator { lines: 3, seed: 7, format: LogLineFormat::Common };
/// let (mut one, mut same) = (Vec::new(), Vec::new());
/// generator.write(&mut one)?;
/// generator.write(&mut same)?;
/// assert!(one == same && one.iter().filter(|byte| **byte == b'\n').count() == 3);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LogGenerator {
    /// How many lines.
    pub lines: u64,
    /// The seed for everything random.
    pub seed: u64,
    /// The format of the lines.
    pub format: LogLineFormat,
}

/// One line of a generated log.
struct GeneratedRequest {
    at: Timestamp,
    ip: [u8; 4],
    user: Option<u64>,
    method: &'static str,
    path: &'static str,
    status: u16,
    bytes: u64,
    agent: &'static str,
}

impl LogGenerator {
    /// Writes the log.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 20, out);
        if self.format == LogLineFormat::Csv {
            writeln!(out, "time,ip,user,method,path,status,bytes,user_agent")?;
        }
        let mut random = SeededRandom::nth(self.seed, 1);
        let (mut stream, paths) = (self.stream(), Zipf::new(PATHS.len(), 1.0));
        let mut line = String::new();
        for _ in 0..self.lines {
            let Some(arrival) = stream.next() else { break };
            let request = generate_request(arrival.at, arrival.source, &paths, &mut random);
            line.clear();
            request.write(self.format, &mut line);
            out.write_all(line.as_bytes())?;
        }
        out.flush()
    }

    /// The times and callers of all lines, spread over about a day.
    fn stream(&self) -> PoissonTraffic {
        let rate = (self.lines.max(1) as f64 / 86_400.0).max(0.01);
        let (days, shape) = (Span::from_days(4_000), RateShape::Diurnal(Span::from_days(1)));
        let (callers, random) = (Zipf::new(50_000, 1.0), SeededRandom::new(self.seed));
        PoissonTraffic::with_rate(START, days, rate, shape, callers, random)
    }
}

fn generate_request(
    at: Timestamp,
    source: u32,
    paths: &Zipf,
    random: &mut SeededRandom,
) -> GeneratedRequest {
    let second = at.as_micros() / 1_000_000 % 86_400;
    if (46_800..50_400).contains(&second) && random.below(100) < 5 {
        let ip = [203, 0, 113, random.below(6) as u8];
        let agent = AGENTS[AGENTS.len() - 1];
        return GeneratedRequest {
            at,
            ip,
            user: None,
            method: "POST",
            path: "/login",
            status: 401,
            bytes: 41,
            agent,
        };
    }
    // One request in fifty took longer, so its line is out of order.
    let late = if random.below(50) == 0 { random.below(3_000_000) } else { 0 };
    let mixed = SeededRandom::nth(0x1b, u64::from(source)).bits().to_le_bytes();
    let (method, path) = PATHS[paths.pick(random)];
    GeneratedRequest {
        at: at.before(Span::from_micros(late)),
        ip: [10 + mixed[0] % 90, mixed[1], mixed[2], mixed[3]],
        user: (mixed[4] < 100).then_some(u64::from(source) + 1_000),
        method,
        path,
        status: [200, 200, 200, 200, 200, 200, 304, 404][random.below(8) as usize],
        bytes: 200 + random.below(20_000),
        agent: AGENTS[usize::from(mixed[5]) % (AGENTS.len() - 1)],
    }
}

impl GeneratedRequest {
    fn write(&self, format: LogLineFormat, line: &mut String) {
        let Self { at, ip: [a, b, c, d], user, method, path, status, bytes, agent } = self;
        let seconds = at.as_micros() / 1_000_000;
        let CivilDate { year, month, day } = CivilDate::of_day((seconds / 86_400).cast_signed());
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        let millis = at.as_micros() / 1_000 % 1_000;
        let user = user.map(|user| format!("user-{user}"));
        let user = user.as_deref().unwrap_or("-");
        let _ = match format {
            LogLineFormat::Common => {
                let name = MONTHS.get(usize::from(month) - 1).copied().unwrap_or_default();
                let name = std::str::from_utf8(&name).unwrap_or_default();
                writeln!(
                    line,
                    "{a}.{b}.{c}.{d} - {user} [{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} \
                     +0000] \"{method} {path} HTTP/1.1\" {status} {bytes} \"-\" \"{agent}\""
                )
            }
            LogLineFormat::Json => writeln!(
                line,
                "{{\"time\":\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z\",\
                 \"ip\":\"{a}.{b}.{c}.{d}\",\"method\":\"{method}\",\"host\":\"api.example.com\",\
                 \"path\":\"{path}\",\"status\":{status},\"user_agent\":\"{agent}\",\
                 \"attributes\":{{\"user\":\"{user}\"}}}}"
            ),
            LogLineFormat::Csv => writeln!(
                line,
                "{seconds}.{millis:03},{a}.{b}.{c}.{d},{user},{method},{path},{status},{bytes},{agent}"
            ),
        };
    }
}

/// 1 January 2025.
const START: Timestamp = Timestamp::from_secs(1_735_689_600);

const PATHS: &[(&str, &str)] = &[
    ("GET", "/"),
    ("GET", "/api/items?page=1"),
    ("GET", "/api/items/42"),
    ("GET", "/static/app.js"),
    ("GET", "/static/app.css"),
    ("GET", "/api/search?q=shoes"),
    ("POST", "/api/cart"),
    ("GET", "/api/orders"),
    ("POST", "/login"),
    ("GET", "/favicon.ico"),
    ("PUT", "/api/cart/7"),
    ("POST", "/api/orders"),
    ("GET", "/health"),
];

/// The last one is the attacker's.
const AGENTS: &[&str] = &[
    "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/132.0",
    "Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 Safari/605.1.15",
    "Mozilla/5.0 (iPhone) AppleWebKit/605.1.15 Mobile/15E148",
    "okhttp/4.12.0",
    "curl/8.10.1",
    "python-requests/2.32",
];
