//! Maps the names in a log to the attributes of a request.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

/// The attributes to read from a log, and the field that each name in it stands for.
#[derive(Debug)]
pub(crate) struct LogFieldNames {
    wanted: Vec<Box<str>>,
    meanings: HashMap<Box<str>, LogField, FixedState>,
    /// Attributes for which the log uses the same names as policies.
    own: HashMap<Box<str>, LogField, FixedState>,
    columns: HashMap<&'static str, LogColumns, FixedState>,
}

/// The columns of a row that take the same value.
pub(super) type LogColumns = SmallVec<[u16; 2]>;

/// What a name in a log stands for. If several names stand for the same, the lowest rank counts.
#[derive(Clone, Debug)]
pub(super) enum LogField {
    /// The time.
    Time(u8),
    /// A line such as `GET /x?y HTTP/1.1`, or an object with more names.
    Request,
    /// A path, perhaps with a query.
    Target(u8),
    /// An object with attributes by their own names.
    Attributes,
    /// The value of an attribute.
    Value(LogColumns, u8),
}

impl LogFieldNames {
    pub(crate) fn new<'a>(wanted: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        for name in wanted {
            if !names.iter().any(|other| **other == *name) {
                names.push(name.into());
            }
        }
        let mut this = Self {
            wanted: names,
            meanings: HashMap::default(),
            own: HashMap::default(),
            columns: HashMap::default(),
        };
        for (canonical, others) in GROUPS {
            let is_meant = |name: &str| name == *canonical || others.contains(&name);
            let columns: LogColumns = this.columns_where(is_meant);
            for (rank, name) in (0..).zip(std::iter::once(canonical).chain(*others)) {
                let meaning = match *canonical {
                    "time" => LogField::Time(rank),
                    "path" => LogField::Target(rank),
                    _ => LogField::Value(columns.clone(), rank),
                };
                this.meanings.insert((*name).into(), meaning);
            }
            this.columns.insert(canonical, columns);
        }
        this.meanings.insert("request".into(), LogField::Request);
        this.meanings.insert("attributes".into(), LogField::Attributes);
        for (number, name) in (0..).zip(&this.wanted) {
            let own = LogField::Value(LogColumns::from_iter([number]), 0);
            this.meanings.entry(name.clone()).or_insert_with(|| own.clone());
            this.own.insert(name.clone(), own);
        }
        this
    }

    fn columns_where(&self, is_meant: impl Fn(&str) -> bool) -> LogColumns {
        let numbered = (0..).zip(&self.wanted);
        numbered.filter(|(_, name)| is_meant(name)).map(|(number, _)| number).collect()
    }

    pub(crate) fn attributes(&self) -> &[Box<str>] {
        &self.wanted
    }

    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.wanted.iter().position(|wanted| **wanted == *name)
    }

    /// The columns of an attribute, by its name in `GROUPS`.
    pub(super) fn columns(&self, canonical: &str) -> &[u16] {
        self.columns.get(canonical).map(|columns| &columns[..]).unwrap_or_default()
    }

    pub(super) fn field(&self, name: &str) -> Option<&LogField> {
        self.meanings.get(name)
    }

    /// The field of a name in an `attributes` object, which uses the names of policies.
    pub(super) fn attribute_field(&self, name: &str) -> Option<&LogField> {
        self.own.get(name)
    }
}

/// The name of an attribute, and its names in nginx, Envoy, Caddy and others; the preferred ones first.
/// A policy may use any of them.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    (
        "time",
        &[
            "timestamp",
            "@timestamp",
            "ts",
            "time_iso8601",
            "msec",
            "start_time",
            "time_local",
            "date",
        ],
    ),
    (
        "ip",
        &[
            "client_ip",
            "remote_ip",
            "remote_addr",
            "downstream_remote_address",
            "clientip",
            "source_ip",
        ],
    ),
    ("method", &["request_method", "verb"]),
    ("path", &["uri", "request_uri", "request_path", "x-envoy-original-path", "url"]),
    ("query", &["query_string", "args"]),
    ("host", &["authority", ":authority", "http_host", "server_name", "vhost"]),
    ("status", &["response_code", "status_code", "code"]),
    ("user_agent", &["http_user_agent", "user-agent", "agent"]),
    ("user", &["user_id", "userId", "remote_user"]),
    ("referer", &["http_referer", "referrer"]),
    ("bytes", &["body_bytes_sent", "bytes_sent", "size"]),
];
