//! Pipelined commands: order, concurrency, and exact counts.

use std::sync::Arc;
use std::thread;

use tidegate::{RedisConfig, RedisStore};
use tidegate_testkit::{Redis, encode_command};
use tokio::sync::Barrier;

use crate::remote_store::Elsewhere;
use crate::support::{Server, numbers};

fn pipeline(commands: &[String]) -> Vec<u8> {
    commands
        .iter()
        .flat_map(|command| encode_command(&command.split(' ').collect::<Vec<_>>()))
        .collect()
}

#[test]
fn answers_come_in_the_order_of_the_commands() {
    let server = Server::start();
    let mut client = server.connect();
    for number in 0..1_000 {
        client.send(&["CL.THROTTLE", "k", "499", "1", "60"]).unwrap();
        client.send(&["ECHO", &number.to_string()]).unwrap();
    }
    for number in 0..1_000 {
        let decided = numbers(&client.receive().unwrap());
        assert_eq!(decided[0] == 0, number < 500, "{decided:?}");
        assert_eq!(client.receive().unwrap().integer(), number);
    }
}

#[test]
fn at_a_frozen_clock_exactly_the_limit_passes() {
    const CLIENTS: usize = 16;
    let server = Arc::new(Server::start());
    for (command, limit) in [("CL.THROTTLE hot 99 1 60", 100), ("RL.CHECK demo hot", 10)] {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (server, commands) = (server.clone(), vec![command.to_owned(); 64]);
                thread::spawn(move || {
                    let mut client = server.connect();
                    commands.iter().for_each(|it| client.send(&words(it)).unwrap());
                    let replies = (0..64).map(|_| numbers(&client.receive().unwrap()));
                    replies.collect::<Vec<_>>()
                })
            })
            .collect();
        let replies: Vec<_> = clients.into_iter().flat_map(|it| it.join().unwrap()).collect();
        let passes = |reply: &&Vec<i64>| reply[0] == i64::from(command.starts_with("RL"));
        let mut left: Vec<_> = replies.iter().filter(passes).map(|reply| reply[2]).collect();
        left.sort_unstable();
        assert_eq!(left, (0..limit).collect::<Vec<_>>(), "{command}");
    }
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

#[test]
fn decisions_of_a_pipeline_are_under_way_together() {
    // If decided one after the other, none of them would ever be answered.
    const TOGETHER: usize = 50;
    let server = Server::on(|| {
        let together = Arc::new(Barrier::new(TOGETHER));
        Elsewhere::new(move || {
            let together = Arc::clone(&together);
            async move {
                together.wait().await;
            }
        })
    });
    let mut client = server.raw();
    let commands: Vec<_> =
        (0..TOGETHER).map(|key| format!("CL.THROTTLE {key} {key} 1 60")).collect();
    client.send(pipeline(&commands));
    for key in 0..TOGETHER {
        let (limit, left) = (key + 1, key);
        client.expect(&format!("*5\r\n:0\r\n:{limit}\r\n:{left}\r\n:-1\r\n:60\r\n"));
    }
}

#[test]
fn a_redis_behind_us_is_asked_in_order() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let server = Server::on(|| RedisStore::builder(config).build());
    let mut client = server.connect();
    for round in 0..3 {
        for _ in 0..300 {
            client.send(&["CL.THROTTLE", "k", "199", "1", "3600"]).unwrap();
        }
        for key in 0..100 {
            client.send(&["CL.THROTTLE", &format!("{round}:{key}"), "4", "1", "3600"]).unwrap();
        }
        client.send(&["ECHO", "done"]).unwrap();
        for place in 0..300 {
            let left = if round == 0 { (199 - place).max(0) } else { 0 };
            assert_eq!(numbers(&client.receive().unwrap())[2], left, "{round} {place}");
        }
        for _ in 0..100 {
            assert_eq!(numbers(&client.receive().unwrap())[..3], [0, 5, 4]);
        }
        assert_eq!(client.receive().unwrap().text(), "done");
    }
}

#[test]
fn a_reset_in_a_pipeline_comes_after_what_was_before_it() {
    let redis = Redis::start();
    let config: RedisConfig = redis.url().parse().unwrap();
    let server = Server::on(|| RedisStore::builder(config).build());
    let mut client = server.connect();
    for _ in 0..20 {
        client.send(&["CL.THROTTLE", "other", "4", "1", "3600"]).unwrap();
        client.send(&["RL.CHECK", "demo", "alice", "10"]).unwrap();
        client.send(&["RL.RESET", "demo", "alice"]).unwrap();
    }
    for _ in 0..20 {
        assert_eq!(client.receive().unwrap().items().len(), 5);
        assert_eq!(numbers(&client.receive().unwrap())[..3], [1, 10, 0]);
        assert!(client.receive().unwrap().is_ok());
    }
}
