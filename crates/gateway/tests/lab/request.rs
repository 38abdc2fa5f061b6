//! A request in parts, so that each of them can be spelled differently or left out.

/// Everything is bytes as they are sent. A value has the space that follows the colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) version: Vec<u8>,
    pub(crate) fields: Vec<Field>,
    /// If there are any, the request has an empty body in chunks.
    pub(crate) trailers: Vec<Field>,
}

/// A name and a value.
pub(crate) type Field = (Vec<u8>, Vec<u8>);

impl Request {
    pub(crate) fn new(method: &str, target: &str, host: &str) -> Self {
        Self {
            method: method.into(),
            target: target.into(),
            version: "HTTP/1.1".into(),
            fields: vec![field("host", host)],
            trailers: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.push(field(name, value));
        self
    }

    /// The request in the format of HTTP/1.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = [&self.method[..], &self.target, &self.version].join(&b' ');
        bytes.extend(b"\r\n");
        write_fields(&mut bytes, &self.fields);
        if !self.trailers.is_empty() {
            bytes.extend(b"transfer-encoding: chunked\r\n");
        }
        bytes.extend(b"\r\n");
        if !self.trailers.is_empty() {
            bytes.extend(b"0\r\n");
            write_fields(&mut bytes, &self.trailers);
            bytes.extend(b"\r\n");
        }
        bytes
    }

    /// One line of text, which a report prints and the corpus keeps.
    pub(crate) fn text(&self) -> String {
        let escape = |byte: u8| match byte {
            b'"' | b'\'' => char::from(byte).to_string(),
            byte => byte.escape_ascii().to_string(),
        };
        self.bytes().into_iter().map(escape).collect()
    }

    /// Reads such a line.
    ///
    /// # Panics
    ///
    /// If it is not one.
    pub(crate) fn read(line: &str) -> Self {
        let bytes = unescape(line);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let end = find(&bytes, b"\r\n\r\n").unwrap_or_else(|| panic!("no end of a head: {line}"));
        let (head, body) = bytes.split_at(end);
        let (first, rest) = head.split_at(find(head, b"\r\n").unwrap_or(head.len()));
        let words: Vec<_> = first.split(|byte| *byte == b' ').collect();
        let [method, target @ .., version] = &words[..] else {
            panic!("no words: {}", text(first))
        };
        let mut fields = read_fields(rest);
        let is_chunked = fields.last().is_some_and(|(name, _)| name == b"transfer-encoding");
        let trailers = match body.strip_prefix(b"\r\n\r\n0") {
            Some(trailers) if is_chunked => {
                fields.pop();
                read_fields(trailers.strip_suffix(b"\r\n\r\n").expect("an end of the trailers"))
            }
            _ => Vec::new(),
        };
        let (method, version) = (method.to_vec(), version.to_vec());
        Self { method, target: target.join(&b' '), version, fields, trailers }
    }
}

pub(crate) fn field(name: &str, value: &str) -> Field {
    (name.into(), format!(" {value}").into())
}

fn write_fields(bytes: &mut Vec<u8>, fields: &[Field]) {
    for (name, value) in fields {
        bytes.extend([&name[..], b":", value, b"\r\n"].concat());
    }
}

/// Each line begins with a line break. A line that begins with a space continues the previous one.
fn read_fields(mut rest: &[u8]) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    while let Some(line) = rest.strip_prefix(b"\r\n") {
        let end = find(line, b"\r\n").unwrap_or(line.len());
        let (line, after) = line.split_at(end);
        rest = after;
        match fields.last_mut() {
            Some((_, value)) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                value.extend([b"\r\n", line].concat());
            }
            _ => {
                let colon = line.iter().position(|byte| *byte == b':').expect("a colon");
                fields.push((line[..colon].to_vec(), line[colon + 1..].to_vec()));
            }
        }
    }
    fields
}

pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn unescape(line: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = line.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escape = rest.next().expect("something behind a backslash");
        bytes.push(match escape {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'x' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = std::str::from_utf8(&digits).expect("two digits");
                u8::from_str_radix(digits, 16).expect("two hexadecimal digits")
            }
            other => other,
        });
    }
    bytes
}

#[test]
fn a_request_is_a_line_of_text_and_back() {
    let mut request = Request::new("GET", "/a%20\\", "api.test").with("x-\tname", "a\r\n\tb\u{e9}");
    assert_eq!(Request::read(&request.text()), request);
    request.trailers.push(field("x-api-key", "\"alice\""));
    assert_eq!(Request::read(&request.text()), request);
}
