//! `CLIENT`: a connection's name, library and number.

use super::reply::RespReplies;
use super::request::{quoted, split};

/// A client's number, and the names that it has given itself.
#[derive(Debug, Default)]
pub(super) struct RespClient {
    id: u64,
    name: String,
    library: String,
    library_version: String,
}

impl RespClient {
    pub(super) fn new(id: u64) -> Self {
        Self { id, ..Self::default() }
    }

    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn rename(&mut self, name: &[u8]) -> Result<(), &'static str> {
        self.name = readable(name).ok_or(BAD_NAME)?;
        Ok(())
    }

    pub(super) fn answer(&mut self, arguments: &[&[u8]], replies: &mut RespReplies) {
        let (subcommand, rest) = split(arguments);
        let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
        match rest {
            [name] if is("SETNAME") => match self.rename(name) {
                Ok(()) => replies.status("OK"),
                Err(problem) => replies.error(problem),
            },
            [] if is("GETNAME") && self.name.is_empty() => replies.null(),
            [] if is("GETNAME") => replies.bulk(self.name.as_bytes()),
            [name, value] if is("SETINFO") => self.set_info(name, value, replies),
            [] if is("ID") => replies.count(self.id),
            // A client sees only itself. The number of all clients is in the metrics.
            [] if is("INFO") => replies.text(&self.describe(replies)),
            [..] if is("LIST") => replies.text(&self.describe(replies)),
            // Nothing of a client is stored that could be evicted or touched.
            [_] if is("NO-EVICT") || is("NO-TOUCH") => replies.status("OK"),
            _ => {
                let what = quoted(subcommand);
                replies.error(&format!("ERR unknown subcommand or wrong number of arguments for {what}: expected CLIENT {KNOWN}"));
            }
        }
    }

    fn set_info(&mut self, name: &[u8], value: &[u8], replies: &mut RespReplies) {
        let field = if name.eq_ignore_ascii_case(b"LIB-NAME") {
            &mut self.library
        } else if name.eq_ignore_ascii_case(b"LIB-VER") {
            &mut self.library_version
        } else {
            let name = quoted(name);
            return replies
                .error(&format!("ERR Unrecognized option {name}: expected LIB-NAME or LIB-VER"));
        };
        match readable(value) {
            Some(value) => {
                *field = value;
                replies.status("OK");
            }
            None => replies.error(BAD_NAME),
        }
    }

    fn describe(&self, replies: &RespReplies) -> String {
        let Self { id, name, library, library_version } = self;
        let protocol = replies.protocol().number();
        format!(
            "id={id} name={name} db=0 resp={protocol} lib-name={library} lib-ver={library_version}\n"
        )
    }
}

/// Text that can be shown in a list: short, and printable without spaces.
fn readable(text: &[u8]) -> Option<String> {
    let is_readable = text.len() <= MAX_NAME && text.iter().all(u8::is_ascii_graphic);
    is_readable.then(|| String::from_utf8_lossy(text).into_owned())
}

const MAX_NAME: usize = 128;
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters, or be \
    longer than 128 bytes";
const KNOWN: &str = "SETNAME, GETNAME, SETINFO, ID, INFO, LIST, NO-EVICT or NO-TOUCH";

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(client: &mut RespClient, command: &str) -> String {
        let mut replies = RespReplies::default();
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        client.answer(&words, &mut replies);
        String::from_utf8(replies.bytes().to_vec()).unwrap()
    }

    #[test]
    fn a_client_is_told_what_it_has_said() {
        let mut client = RespClient::new(7);
        assert_eq!(reply(&mut client, "GETNAME"), "$-1\r\n");
        assert_eq!(reply(&mut client, "setname worker-1"), "+OK\r\n");
        assert_eq!(reply(&mut client, "GETNAME"), "$8\r\nworker-1\r\n");
        assert_eq!(reply(&mut client, "SETINFO LIB-NAME some-client"), "+OK\r\n");
        assert_eq!(reply(&mut client, "SETINFO lib-ver 1.0"), "+OK\r\n");
        assert_eq!(reply(&mut client, "ID"), ":7\r\n");
        let info = reply(&mut client, "INFO");
        assert!(
            info.contains("id=7 name=worker-1 db=0 resp=2 lib-name=some-client lib-ver=1.0"),
            "{info}"
        );
        assert_eq!(reply(&mut client, "LIST"), info);
    }

    #[test]
    fn what_it_may_not_say_is_refused() {
        let mut client = RespClient::new(7);
        for (command, part) in [
            ("SETNAME a\nb", "cannot contain spaces"),
            ("SETINFO COLOUR red", "expected LIB-NAME or LIB-VER"),
            ("KILL 1", "unknown subcommand or wrong number of arguments for 'KILL'"),
            ("SETNAME", "expected CLIENT SETNAME, GETNAME"),
        ] {
            let answer = reply(&mut client, command);
            assert!(answer.starts_with("-ERR ") && answer.contains(part), "{answer}");
        }
    }
}
