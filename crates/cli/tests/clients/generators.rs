//! Clients that are generated from the OpenAPI document compile, and their checks are answered.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testkit::{peers, skipped};

use crate::peers::{node, node_modules, python};
use crate::{Tidegate, said};

const PYTHON: &str = r#"
import os
from tidegate_client import Client
from tidegate_client.api.decisions import check, check_batch
from tidegate_client.models import Attributes, BatchRequest, CheckByAttributes, CheckByPolicy
from tidegate_client.models import BatchResponse, CheckResponse, QuotaExceededProblem

client = Client(base_url=os.environ["TIDEGATE_SERVER"])
attributes = Attributes.from_dict({"ip": "203.0.113.9", "path": "/login"})
for left in (4, 3, 2, 1, 0):
    answer = check.sync(client=client, body=CheckByAttributes(attributes=attributes))
    assert isinstance(answer, CheckResponse), answer
    assert answer.allowed and answer.remaining == left and answer.policy == "login", answer
denied = check.sync(client=client, body=CheckByPolicy(policy="login", key="203.0.113.9"))
assert isinstance(denied, QuotaExceededProblem), denied
assert denied.policy == "login" and denied.limits[0].window_ms == 3600000, denied
batch = BatchRequest(checks=[CheckByPolicy(policy="per-user", key="a", cost=2)])
answers = check_batch.sync(client=client, body=batch)
assert isinstance(answers, BatchResponse), answers
first = answers.results[0]
assert isinstance(first, CheckResponse) and first.remaining == 98, first
print("done")
"#;

#[test]
fn openapi_python_client() {
    let Some(python) = python("openapi_python_client").and(python("mypy")) else { return };
    let tidegate = Tidegate::start();
    let mut generate = Command::new(&python);
    generate.args([
        "-m",
        "openapi_python_client",
        "generate",
        "--fail-on-warning",
        "--meta",
        "none",
    ]);
    generate.args(["--output-path", "tidegate_client", "--path"]).arg(document());
    // It formats what it writes with ruff, which is installed beside it.
    let directory = python_directory();
    let path = std::env::join_paths(
        std::iter::once(directory).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    succeeds(&tidegate, generate.env("PATH", path.unwrap()));
    tidegate.scratch.write("use.py", PYTHON);
    let mut types = Command::new(&python);
    // Strict with what uses the client; what the generator writes alike for everybody is its own.
    types.args(["-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", "types"]);
    types.arg("use.py");
    succeeds(&tidegate, &mut types);
    assert!(succeeds(&tidegate, Command::new(&python).arg("use.py")).ends_with("done\n"));
}

const TYPESCRIPT: &str = r#"
import createClient from "openapi-fetch";
import type { components, paths } from "./tidegate.js";

const client = createClient<paths>({ baseUrl: process.env.TIDEGATE_SERVER });
const attributes = { ip: "203.0.113.9", path: "/login" };
for (const left of [4, 3, 2, 1, 0]) {
  const { data } = await client.POST("/v1/check", { body: { attributes } });
  if (!data?.allowed || data.remaining !== left) throw new Error(JSON.stringify(data));
}
const { error, response } = await client.POST("/v1/check", { body: { policy: "login", key: "203.0.113.9" } });
const denied = error as components["schemas"]["QuotaExceededProblem"];
if (response.status !== 429 || denied.policy !== "login") throw new Error(JSON.stringify(error));
const { data } = await client.POST("/v1/check/batch", {
  body: { checks: [{ policy: "per-user", key: "a", cost: 2 }] },
});
const first = data?.results[0];
if (!first || !("allowed" in first) || first.remaining !== 98) throw new Error(JSON.stringify(data));
console.log("done");
"#;

/// What the compiler must refuse: neither form of a check.
const MISTAKEN: &str = r#"
import createClient from "openapi-fetch";
import type { paths } from "./tidegate.js";
await createClient<paths>().POST("/v1/check", { body: { policy: "login" } });
"#;

#[test]
fn openapi_typescript() {
    let packages = ["openapi-typescript", "openapi-fetch", "typescript"].map(node);
    let [Some(node), Some(_), Some(_)] = packages else { return };
    let tidegate = Tidegate::start();
    std::os::unix::fs::symlink(node_modules(), tidegate.scratch.file("node_modules")).unwrap();
    tidegate.scratch.write("package.json", r#"{ "type": "module" }"#);
    let mut generate = Command::new(&node);
    generate.arg(node_modules().join("openapi-typescript/bin/cli.js")).arg(document());
    succeeds(&tidegate, generate.args(["-o", "tidegate.d.ts"]));
    let compile = |file: &str, text: &str| {
        tidegate.scratch.write(&format!("{file}.ts"), text);
        let config = format!(
            r#"{{ "files": ["{file}.ts"], "compilerOptions": {{ "strict": true, "types": [],
                 "target": "es2022", "module": "nodenext", "lib": ["es2022", "dom"] }} }}"#
        );
        let config = tidegate.scratch.write(&format!("{file}.json"), &config);
        let mut compile = Command::new(&node);
        compile.arg(node_modules().join("typescript/bin/tsc")).arg("-p").arg(config);
        compile
    };
    // Node's own types are a package of their own.
    let text = format!("declare const process: {{ env: Record<string, string> }};\n{TYPESCRIPT}");
    succeeds(&tidegate, &mut compile("use", &text));
    assert_eq!(succeeds(&tidegate, Command::new(&node).arg("use.js")), "done\n");
    let refused = tidegate.output(&mut compile("mistaken", MISTAKEN));
    assert!(!refused.status.success(), "a check without a key compiles");
    assert!(said(&refused).contains("mistaken.ts"), "{}", said(&refused));
}

/// The checked-in document, which is the one that is served.
fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/openapi.json")
}

/// Where the programs of Python's packages are.
fn python_directory() -> PathBuf {
    let directory = peers().unwrap_or_default().join("venv/bin");
    if !directory.is_dir() {
        skipped("the virtual environment of Python");
    }
    directory
}

/// What a command prints.
#[track_caller]
fn succeeds(tidegate: &Tidegate, command: &mut Command) -> String {
    let output = tidegate.output(command);
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
