//! Password guessing, and commands that clients have no right to.

use tidegate_server::ListenerConfig;

use crate::support::{Server, call};

fn guarded() -> Server {
    Server::with_password("open sesame, please")
}

#[test]
fn attack_21_a_connection_ends_after_ten_wrong_passwords() {
    for guess in ["AUTH wrong\r\n", "HELLO 3 AUTH default wrong\r\n", "AUTH root sesame\r\n"] {
        let server = guarded();
        let mut client = server.raw();
        client.send(guess.repeat(11));
        client.send("AUTH 'open sesame, please'\r\nPING\r\n");
        let said = client.rest();
        assert_eq!(said.matches("-WRONGPASS").count(), 10, "{said}");
        assert!(!said.contains("+OK") && !said.contains("PONG"), "{said}");
    }
}

#[test]
fn attack_21_an_address_can_guess_only_so_often() {
    let server = guarded();
    let (mut wrong, mut unheard) = (0, 0);
    for _ in 0..200 {
        let mut client = server.raw();
        client.send("AUTH wrong\r\nAUTH wrong\r\nQUIT\r\n");
        let said = client.rest();
        wrong += said.matches("-WRONGPASS").count();
        unheard += said.matches("-ERR too many wrong passwords").count();
    }
    // 20 in a burst and 5 a second, however fast this machine is.
    assert!(wrong >= 20 && unheard > 0, "{wrong} {unheard}");
    assert_eq!(server.refused("unauthenticated"), wrong as u64);
    assert_eq!(server.refused("overload"), unheard as u64);
}

#[test]
fn the_right_password_is_heard_after_some_wrong_ones() {
    let server = guarded();
    let mut client = server.connect();
    for _ in 0..9 {
        assert!(client.call(&["AUTH", "wrong"]).unwrap().text().starts_with("WRONGPASS "));
    }
    assert_eq!(client.call(&["AUTH", "open sesame, please"]).unwrap().text(), "OK");
    assert_eq!(call(&mut client, "PING").text(), "PONG");
}

#[test]
fn attack_16_nobody_gives_back_or_resets_without_the_right_to() {
    let server = Server::with(ListenerConfig::default());
    for (command, expected) in [
        ("RL.REFUND demo alice 1", "NOPERM refunds are off: expected serve --allow resp:refund"),
        ("RL.RESET demo alice", "NOPERM resets are off: expected serve --allow resp:reset"),
    ] {
        assert_eq!(server.call(command).text(), expected);
    }
    let rights = "reset".parse().unwrap();
    let server = Server::allowing(rights);
    assert_eq!(server.call("RL.RESET demo alice").text(), "OK");
    assert!(server.call("RL.REFUND demo alice 1").text().starts_with("NOPERM "));
    assert_eq!(server.refused("forbidden"), 1);
}
