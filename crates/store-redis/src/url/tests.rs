use super::*;

fn parsed(url: &str) -> RedisUrl {
    url.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn tcp(host: &str, port: u16) -> RedisAddress {
    RedisAddress::Tcp { host: host.to_owned(), port }
}

fn login(user: &str, password: &str) -> RedisLogin {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    RedisLogin { user: some(user), password: some(password) }
}

#[test]
fn one_server() {
    for (url, tls, user, password, host, port, database) in [
        ("redis://localhost", false, "", "", "localhost", 6379, 0),
        ("redis://localhost/", false, "", "", "localhost", 6379, 0),
        ("redis://127.0.0.1:7000/3", false, "", "", "127.0.0.1", 7000, 3),
        ("rediss://cache.example.com", true, "", "", "cache.example.com", 6379, 0),
        ("redis://:secret@h", false, "", "secret", "h", 6379, 0),
        ("redis://me:secret@h:1", false, "me", "secret", "h", 1, 0),
        ("redis://me@h", false, "me", "", "h", 6379, 0),
        ("redis://a%40b:p%3Aw%2Fd%25@h", false, "a@b", "p:w/d%", "h", 6379, 0),
        ("redis://me:p@ss@h", false, "me", "p@ss", "h", 6379, 0),
        ("redis://me:a:b@h", false, "me", "a:b", "h", 6379, 0),
        ("redis://[::1]", false, "", "", "::1", 6379, 0),
        ("rediss://u:p@[2001:db8::7]:6380/15", true, "u", "p", "2001:db8::7", 6380, 15),
        ("redis://redis_master.svc:65535", false, "", "", "redis_master.svc", 65535, 0),
    ] {
        let expected = RedisUrl {
            tls,
            login: login(user, password),
            database,
            target: RedisDeployment::Single(tcp(host, port)),
        };
        assert_eq!(parsed(url), expected, "{url}");
    }
}

#[test]
fn sockets() {
    for (url, path, database) in [
        ("redis+unix:///run/redis.sock", "/run/redis.sock", 0),
        ("unix:///run/redis.sock?db=2", "/run/redis.sock", 2),
        ("redis+unix:///run/a%20b.sock", "/run/a b.sock", 0),
    ] {
        let target = parsed(url);
        assert_eq!(
            target.target,
            RedisDeployment::Single(RedisAddress::Unix(path.into())),
            "{url}"
        );
        assert_eq!(target.database, database, "{url}");
    }
    assert_eq!(parsed("redis+unix://me:pw@/s.sock").login, login("me", "pw"));
}

#[test]
fn sentinels() {
    let target = parsed(
        "rediss+sentinel://me:pw@a,b:1,[::1]:2/my%2Fmaster/4?sentinel_user=s&sentinel_password=%26",
    );
    let expected = RedisUrl {
        tls: true,
        login: login("me", "pw"),
        database: 4,
        target: RedisDeployment::Sentinel {
            sentinels: vec![tcp("a", 26379), tcp("b", 1), tcp("::1", 2)],
            service: "my/master".to_owned(),
            login: login("s", "&"),
        },
    };
    assert_eq!(target, expected);
    assert_eq!(parsed("redis+sentinel://a/m").database, 0);
}

#[test]
fn clusters() {
    let target = parsed("redis+cluster://:pw@a,b:1/0");
    let seeds = vec![tcp("a", 6379), tcp("b", 1)];
    let expected = RedisUrl {
        tls: false,
        login: login("", "pw"),
        database: 0,
        target: RedisDeployment::Cluster { seeds },
    };
    assert_eq!(target, expected);
    assert!(parsed("rediss+cluster://a").tls);
}

#[test]
fn errors_say_what_is_wrong_and_what_was_expected() {
    for (url, problem, expected) in [
        ("", "no scheme", "expected redis://"),
        ("localhost:6379", "no scheme", "expected redis://"),
        ("http://localhost", "unknown scheme", "rediss+cluster://"),
        ("REDIS://localhost", "unknown scheme", "expected redis://"),
        ("redis://", "no host", "expected redis://"),
        ("redis://:6379", "no host", "expected redis://"),
        ("redis://h:0", "port \"0\" is not a number from 1 to 65535", "expected redis://"),
        ("redis://h:65536", "port \"65536\"", "expected redis://"),
        ("redis://h:", "port \"\"", "expected redis://"),
        ("redis://h:+1", "port \"+1\"", "expected redis://"),
        ("redis://h:1/x", "database \"x\" is not a number", "[/database]"),
        ("redis://h/-1", "database \"-1\"", "[/database]"),
        ("redis://h/1/2", "database \"1/2\"", "[/database]"),
        ("redis://h/99999999999", "database", "[/database]"),
        ("redis://a b", "\"a b\" is not a host name", "expected redis://"),
        ("redis://a,b", "redis+sentinel:// or redis+cluster://", "expected redis://"),
        ("redis://::1", "in brackets", "expected redis://"),
        ("redis://[::1", "is not closed", "expected redis://"),
        ("redis://[g::1]", "\"g::1\" is not an IPv6 address", "expected redis://"),
        ("redis://h?db=1", "unknown parameter \"db\"", "expected redis://"),
        ("redis://h?timeout", "without \"=\"", "expected redis://"),
        ("redis://h#x", "\"#\"", "expected redis://"),
        ("redis://u:%zz@h", "the password has a \"%\"", "%25"),
        ("redis://u:%f@h", "the password has a \"%\"", "%25"),
        ("redis://%ff:x@h", "the user is not UTF-8", "expected redis://"),
        ("redis+unix://", "no path", "expected redis+unix://"),
        ("redis+unix:///", "no path", "expected redis+unix://"),
        ("redis+unix://h/s.sock", "a socket has no host, but found \"h\"", "redis+unix://"),
        ("redis+unix:///s?db=1&db=2", "parameter \"db\" is given twice", "redis+unix://"),
        ("redis+sentinel://h", "no service", "/service[/database]"),
        ("redis+sentinel://h,/m", "no host", "/service[/database]"),
        ("redis+sentinel://h/m/x", "database \"x\"", "/service[/database]"),
        ("redis+sentinel://h/m?sentinel_pasword=x", "unknown parameter", "redis+sentinel://"),
        ("redis+cluster://h/1", "only database 0", "expected redis+cluster://"),
        ("redis+cluster://h?sentinel_user=x", "unknown parameter", "expected redis+cluster://"),
    ] {
        let error = url.parse::<RedisUrl>().expect_err(url).to_string();
        assert!(error.contains(problem), "{url:?}: {error}");
        assert!(error.contains(expected), "{url:?}: {error}");
    }
    let many = format!("redis+cluster://{}", vec!["h"; 65].join(","));
    assert!(many.parse::<RedisUrl>().is_err());
}

#[test]
fn passwords_are_never_shown() {
    for url in [
        "redis://me:hunter2@h:0",
        "redis://me:hunter2@h/x",
        "redis://hunter2@h:0",
        "redis://me:hun@hunter2@h:0",
        "redis://me:a/hunter2@h",
        "redis://me:a?hunter2@h",
        "redis://me:a#hunter2@h",
        "redis://me:hunter2%@h",
        "me:hunter2@h",
        "http://me:hunter2@h",
        "redis+sentinel://h?sentinel_password=hunter2",
        "redis+sentinel://h?sentinel_password=a@hunter2",
        "redis+sentinel://h?x=1&sentinel_password=hunter2&y=2",
        "redis+sentinel://h/m?Sentinel_Pass=hunter2",
        "redis+sentinel://h/m?sentinel_password=a=hunter2&z=1",
        "redis+cluster://h?password=hunter2",
    ] {
        let error = url.parse::<RedisUrl>().expect_err(url);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{url:?}: {error}");
        assert!(error.to_string().contains("***"), "{url:?}: {error}");
    }
    let target = parsed("redis+sentinel://me:hunter2@a/m?sentinel_password=hunter2");
    let shown = format!("{target} {target:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn targets_are_shown_as_urls() {
    for url in [
        "redis://h:6379/0",
        "rediss://me:***@[::1]:1/2",
        "redis+unix:///s.sock?db=1",
        "redis+sentinel://a:26379,b:1/m/0",
        "rediss+cluster://:***@a:6379,b:1",
    ] {
        assert_eq!(parsed(url).to_string(), url);
    }
}

#[test]
fn half_a_password_is_not_taken_for_a_port() {
    for url in ["redis://user:hunter/2@host", "redis://:hunter?a=2@host:1", "rediss://u:hunter/@h"]
    {
        let error = url.parse::<RedisUrl>().unwrap_err().to_string();
        assert!(error.contains("%2F") && !error.contains("hunter"), "{error}");
    }
    for url in
        ["redis://[::1]/0", "redis+sentinel://h:1/svc?sentinel_password=a@b", "redis://h:1/2"]
    {
        assert!(url.parse::<RedisUrl>().is_ok(), "{url}");
    }
}
