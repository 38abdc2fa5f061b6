//! What each proxy does with each refusal: each cell of the table in docs/proxies.md is tested here.

use std::path::Path;

use tidegate_testkit::{free_port, peer, wait_until};

use super::stand_in::{Refusal, StandIn};
use super::{Curl, Example, PATIENCE, application};

/// Checks a column of the table. A cell is the status that a client sees; if it is 200, the request
/// has passed.
pub(super) async fn check(example: &Example, column: &str, more: &[&str]) {
    let (Some(program), Some(curl)) = (peer(example.name), peer("curl")) else { return };
    let tidegate = StandIn::start().await;
    let web = free_port();
    let ports = [web, tidegate.address.port(), application().await];
    let proxy = example.start(&program, ports, more);
    let curl = Curl { program: curl, base: format!("http://127.0.0.1:{web}"), from: "127.0.0.2" };
    // A proxy may listen before it knows its routes.
    tidegate.refuse_with(Refusal::Status(200));
    wait_until(example.name, PATIENCE, || curl.get("/up").status == 200);
    let mut wrong = Vec::new();
    for (row, expected) in column_of(column) {
        match &row[..] {
            "no connection" => tidegate.stop(),
            "no answer in time" => tidegate.refuse_with(Refusal::Hangs),
            "connection closed" => tidegate.refuse_with(Refusal::Closes),
            status => tidegate.refuse_with(Refusal::Status(status.parse().unwrap())),
        }
        let answer = curl.get("/login");
        let has_passed = answer.body == "the application";
        let cell = format!("{} {}", if has_passed { "open" } else { "closed" }, answer.status);
        if cell != expected {
            wrong.push(format!("{column}, {row}: {cell}, and not {expected}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "docs/proxies.md is wrong:\n{}\n{}",
        wrong.join("\n"),
        proxy.printed()
    );
}

/// The rows of the table with this column, and its cells: `closed 500`.
fn column_of(name: &str) -> Vec<(String, String)> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proxies.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|');
        cells.map(|cell| cell.replace(['`', '*'], "").trim().to_owned()).collect()
    };
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| Answer |"));
    let head = cells(lines.next().expect("a table"));
    let column = head.iter().position(|cell| cell == name).expect("a column");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|row| (row[0].clone(), row[column].clone())).collect()
}
