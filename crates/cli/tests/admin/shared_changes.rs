//! Changes by operators, on two servers that share one Redis.

use tidegate_testkit::{Redis, wait_until};

use crate::server::{FILE, SOON, Server, number, scratch, serve};

#[test]
fn an_override_reaches_the_other_instance_survives_both_and_ends() {
    let (redis, config) = (Redis::start(), scratch("override.yaml", FILE));
    let start = || Server::start(&mut serve(&redis.url(), &config));
    let [one, two] = [start(), start()];
    assert_eq!((one.limit("42"), two.limit("42")), (Some(2), Some(2)));
    let body = |lasts: &str| {
        format!(
            r#"{{"policy": "api", "key": "user=42", "limits": ["9/hour"], "expires_in": "{lasts}"}}"#
        )
    };
    assert_eq!(one.admin("POST", "/overrides", &body("1h")).0, 200);
    assert_eq!(one.limit("42"), Some(9), "who was told obeys at once");
    let (_, seen) = one.admin("POST", "/peek", r#"{"policy": "api", "key": "42"}"#);
    let (_, print) = seen.split_once(r##""keys":{"api":""##).unwrap();
    let print = &print[..17];
    let expected = format!(
        "admin (admin): override set for 1h policy=api key={print}, by token desk from 127.0.0.1\n"
    );
    wait_until("the line in the log", SOON, || one.log().contains(&expected));
    assert!(!one.log().contains("user=42"), "{}", one.log());
    wait_until("the override at the other instance", SOON, || two.limit("42") == Some(9));
    assert_eq!(two.limit("43"), Some(2));
    assert!(two.admin("GET", "/overrides", "").1.contains(r#""key":"user=42""#));

    drop((one, two));
    let [one, two] = [start(), start()];
    assert_eq!((one.limit("42"), two.limit("42")), (Some(9), Some(9)), "from the first request on");

    assert_eq!(two.admin("POST", "/overrides", &body("700ms")).0, 200);
    wait_until("the end of the override", SOON, || {
        one.limit("42") == Some(2) && two.limit("42") == Some(2)
    });
    assert_eq!(two.admin("GET", "/overrides", "").1, r#"{"overrides":[]}"#);
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_reset_and_a_mode_reach_the_other_instance_too() {
    let (redis, config) = (Redis::start(), scratch("reset.yaml", FILE));
    let [one, two] = [(); 2].map(|()| Server::start(&mut serve(&redis.url(), &config)));
    for status in [200, 200, 429, 429] {
        assert_eq!(two.check("alice"), status);
    }
    let alice = r#"{"policy": "api", "key": "alice"}"#;
    assert_eq!(one.admin("POST", "/reset", alice).0, 200);
    wait_until("the reset at the other instance", SOON, || two.check("alice") == 200);
    assert!(one.remaining("alice").is_some_and(|left| left < 2));

    assert_eq!(one.admin("POST", "/policies/api/mode", r#"{"mode": "shadow"}"#).0, 200);
    wait_until("the mode at the other instance", SOON, || {
        (0..4).all(|_| two.check("alice") == 200)
    });
    let mode_set = "admin (admin): mode set for 400d policy=api";
    wait_until("the line in the log", SOON, || one.log().contains(mode_set));
    let log = one.log();
    assert!(log.contains("admin (admin): reset policy=api key=#"), "{log}");
    assert!(!log.contains("alice"), "{log}");
    std::fs::remove_file(config).unwrap();
}

#[test]
fn an_override_stays_while_redis_is_away_and_ends_all_the_same() {
    let (redis, config) = (Redis::start(), scratch("away.yaml", FILE));
    let server = Server::start(&mut serve(&redis.url(), &config));
    let body = r#"{"policy": "api", "key": "user=42", "limits": ["9/hour"], "expires_in": "2s"}"#;
    assert_eq!(server.admin("POST", "/overrides", body).0, 200);
    redis.kill();
    let policy = || server.admin("GET", "/policies/api", "").1;
    assert_eq!(number(&policy(), "overrides"), Some(1));
    wait_until("the end of the override", SOON, || number(&policy(), "overrides") == Some(0));
    let (status, said) = server.admin("POST", "/overrides", body);
    assert_eq!(status, 503, "{said}");
    std::fs::remove_file(config).unwrap();
}

#[test]
fn a_reload_is_answered_with_what_came_of_it() {
    let config = scratch("reload.yaml", FILE);
    let server = Server::start(&mut serve("memory", &config));
    let read = config.display();
    let nothing_new = format!(r#"{{"changed":false,"read":["{read}"],"refused":0,"reloads":0}}"#);
    assert_eq!(server.admin("POST", "/reload", ""), (200, nothing_new));
    std::fs::write(&config, FILE.replace("2/hour", "3/hour")).unwrap();
    wait_until("the new limit", SOON, || server.limit("42") == Some(3));
    std::fs::write(&config, FILE.replace("2/hour", "2/our")).unwrap();
    for _ in 0..2 {
        let (status, said) = server.admin("POST", "/reload", "");
        assert_eq!(status, 422, "{said}");
        assert!(said.contains("unknown unit \\\"our\\\""), "{said}");
        assert!(said.contains("; the previous configuration stays in effect"), "{said}");
    }
    assert_eq!(server.limit("42"), Some(3));
    std::fs::write(&config, FILE).unwrap();
    assert_eq!(server.admin("POST", "/reload", "").0, 200);
    assert_eq!(server.limit("42"), Some(2));
    std::fs::remove_file(config).unwrap();
}
