//! What `deploy/` and `.github/` contain is well-formed, and fits this binary: its flags, its variables, its version.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic")]

mod support;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use granit_parser::{Event, Parser};
use serde_json::{Map, Value};
use support::{output_of, tidegate};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below a directory.
fn files(directory: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![root().join(directory)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn is_yaml(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// Templates become YAML only when helm renders them.
fn is_template(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "templates")
}

/// The documents of a YAML text. Every scalar is text.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let (mut done, mut open, mut anchors) = (Vec::new(), Vec::new(), HashMap::new());
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        let (mut value, anchor) = match event {
            Event::Scalar(text, _, anchor, _) => (Value::from(text.into_owned()), anchor),
            Event::Alias(anchor) => (Value::clone(&anchors[&anchor]), 0),
            Event::SequenceStart(_, anchor, _) | Event::MappingStart(_, anchor, _) => {
                open.push((matches!(event, Event::MappingStart(..)), Vec::new(), anchor));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let (is_map, parts, anchor) = open.pop().unwrap();
                (if is_map { map(&parts)? } else { Value::from(parts) }, anchor)
            }
            _ => continue,
        };
        if anchor > 0 {
            anchors.insert(anchor, value.clone());
        }
        match open.last_mut() {
            Some((_, parts, _)) => parts.push(value.take()),
            None => done.push(value.take()),
        }
    }
    Ok(done)
}

/// From keys and values in turn. `<<` brings what the map does not say itself.
fn map(parts: &[Value]) -> Result<Value, String> {
    let (mut map, mut base) = (Map::new(), None);
    for pair in parts.chunks_exact(2) {
        let key = pair[0].as_str().ok_or_else(|| format!("{} is not a name", pair[0]))?;
        if key == "<<" {
            base = pair[1].as_object();
        } else if map.insert(key.to_owned(), pair[1].clone()).is_some() {
            return Err(format!("{key:?} is there twice"));
        }
    }
    for (key, value) in base.into_iter().flatten() {
        map.entry(key).or_insert_with(|| value.clone());
    }
    Ok(map.into())
}

fn document(path: &str) -> Value {
    let documents = documents(&read(&root().join(path)));
    let mut documents = documents.unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|item| item.as_str().unwrap()).collect()
}

/// The flags of `serve`, and the variables that it and other commands read.
fn known() -> (BTreeSet<String>, BTreeSet<String>) {
    let help = |command: &str| {
        let said = output_of(tidegate().args([command, "--help"]));
        String::from_utf8(said.stdout).unwrap()
    };
    let serve = help("serve");
    let words = |text: &str, is_part: fn(char) -> bool| -> BTreeSet<String> {
        text.split(|c| !is_part(c)).map(str::to_owned).collect()
    };
    let flags = words(&serve, |c| c.is_ascii_alphanumeric() || c == '-');
    let both = serve + &help("health");
    (flags, words(&both, |c| c.is_ascii_uppercase() || c == '_'))
}

/// Asserts that arguments of `tidegate serve` exist.
fn assert_flags(place: &str, args: &[&str]) {
    let (flags, _) = known();
    assert_eq!(args.first(), Some(&"serve"), "{place}");
    let names = args.iter().filter(|arg| arg.starts_with("--"));
    let names: Vec<_> = names.map(|arg| arg.split('=').next().unwrap()).collect();
    assert!(names.len() > 2, "{place}: {names:?}");
    for name in names {
        assert!(flags.contains(name), "{place}: `tidegate serve` has no {name}");
    }
}

#[test]
fn every_file_is_yaml() {
    let all = [files("deploy"), files(".github"), files("examples")].concat();
    let all: Vec<_> = all.iter().filter(|path| is_yaml(path) && !is_template(path)).collect();
    assert!(all.len() > 20, "{all:?}");
    for path in all {
        if let Err(error) = documents(&read(path)) {
            panic!("{}: {error}", path.display());
        }
    }
}

#[test]
fn every_variable_exists() {
    let (_, variables) = known();
    // Read by scripts and by builds.
    let others = ["TIDEGATE_RELEASE_ARCHS", "TIDEGATE_BUILD_COMMIT"];
    for path in files("deploy") {
        let text = read(&path);
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        for word in words.filter(|word| word.starts_with("TIDEGATE_")) {
            let is_known = variables.contains(word) || others.contains(&word);
            assert!(is_known, "{}: no variable {word}", path.display());
        }
    }
}

#[test]
fn every_flag_exists() {
    let deployment = document("deploy/kustomize/base/deployment.yaml");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_flags("kustomize", &texts(&container["args"]));
    let compose = document("deploy/compose/compose.yaml");
    for name in ["tidegate-1", "tidegate-2"] {
        assert_flags("compose", &texts(&compose["services"][name]["command"]));
    }
    let template = read(&root().join("deploy/helm/tidegate/templates/deployment.yaml"));
    let args = template.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let args: Vec<_> = args.filter(|arg| *arg == "serve" || arg.starts_with("--")).collect();
    assert!(args.len() > 10, "{args:?}");
    assert_flags("helm", &args);
    let unit = read(&root().join("deploy/systemd/tidegate.service"));
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let (flags, _) = known();
    for flag in start.split(' ').filter(|word| word.starts_with("--")) {
        assert!(flags.contains(flag), "the unit: {flag}");
    }
}

#[test]
fn every_policy_file_is_valid() {
    let values = document("deploy/helm/tidegate/values.yaml");
    let chart = Path::new(env!("CARGO_TARGET_TMPDIR")).join("values.limits.yaml");
    fs::write(&chart, values["config"].as_str().unwrap()).unwrap();
    let deploy = root().join("deploy");
    let others = ["kustomize/base/limits.yaml", "compose/policies/limits.yaml"];
    for path in others.iter().map(|path| deploy.join(path)).chain([chart]) {
        let said = output_of(tidegate().arg("validate").arg(&path));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn files_that_others_name_are_there() {
    for overlay in ["base", "redis"] {
        let folder = root().join("deploy/kustomize").join(overlay);
        let file = document(&format!("deploy/kustomize/{overlay}/kustomization.yaml"));
        let patches = file["patches"].as_array().into_iter().flatten();
        let patches = patches.map(|patch| patch["path"].as_str().unwrap());
        let maps = file["configMapGenerator"].as_array().into_iter().flatten();
        let named = texts(&file["resources"]).into_iter().chain(patches);
        let named: Vec<_> = named.chain(maps.flat_map(|map| texts(&map["files"]))).collect();
        assert!(named.len() > 1, "{named:?}");
        for name in named {
            assert!(folder.join(name).exists(), "{overlay}: {name}");
        }
    }
    let compose = document("deploy/compose/compose.yaml");
    let mut mounted = 0;
    for (name, service) in compose["services"].as_object().unwrap() {
        for volume in texts(&service["volumes"]) {
            let (file, _) = volume.split_once(':').unwrap();
            assert!(root().join("deploy/compose").join(file).exists(), "{name}: {file}");
            mounted += 1;
        }
    }
    assert!(mounted > 5);
}

#[test]
fn images_are_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = document("deploy/helm/tidegate/Chart.yaml");
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    let base = document("deploy/kustomize/base/kustomization.yaml");
    assert_eq!(base["images"][0]["newTag"], version);
    let compose = document("deploy/compose/compose.yaml");
    let image = format!("tidegate/tidegate:{version}");
    assert_eq!(compose["services"]["tidegate-1"]["image"], image.as_str());
}

/// A helm that go has installed takes itself for one of an old Kubernetes.
const TEMPLATE: [&str; 4] = ["template", "limits", "--kube-version", "1.30.0"];

/// Switches on all that the chart has.
const EVERYTHING: [&str; 4] = [
    "--set=autoscaling.enabled=true,grpc.enabled=true,resp.enabled=true,admin.enabled=true",
    "--set=networkPolicy.enabled=true,serviceMonitor.enabled=true,store=redis://redis:6379",
    "--set=secrets.secret=0123456789abcdef,secrets.storePassword=hush,secrets.adminTokens=t",
    "--set=extraArgs={--max-connections=7},podLabels.a=b,podAnnotations.c=d,nodeSelector.e=f",
];

/// Whatever is switched on, the chart renders to objects, with the flags and the files that they need.
#[test]
fn the_chart_renders() {
    let Some(helm) = tidegate_testkit::peer("helm") else { return };
    let chart = root().join("deploy/helm/tidegate");
    let run = |args: &[&str]| {
        let said = output_of(Command::new(&helm).args(args).arg(&chart));
        let (stdout, stderr) =
            (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
        (said.status.success(), stdout, stderr)
    };
    let (is_fine, said, error) = run(&["lint", "--strict"]);
    assert!(is_fine, "{said}{error}");
    for (more, kinds) in [(&[][..], 5), (&EVERYTHING[..], 10)] {
        let (is_fine, text, error) = run(&[&TEMPLATE[..], more].concat());
        assert!(is_fine, "{error}");
        let objects = documents(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(objects.len() >= kinds, "{text}");
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let args = texts(&container["args"]);
        assert_flags("helm", &args);
        let nodes = if more.is_empty() { "--expected-nodes=2" } else { "--expected-nodes=6" };
        assert!(args.contains(&nodes), "{args:?}");
        let volumes = pod["volumes"].as_array().unwrap();
        let mounts = container["volumeMounts"].as_array().unwrap();
        assert_eq!(volumes.len(), if more.is_empty() { 1 } else { 2 }, "{volumes:?}");
        assert_eq!(volumes.len(), mounts.len());
        let config = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
        let policies = config["data"]["limits.yaml"].as_str().unwrap();
        let values = document("deploy/helm/tidegate/values.yaml");
        assert_eq!(policies.trim(), values["config"].as_str().unwrap().trim());
    }
    let (is_fine, _, error) = run(&[&TEMPLATE[..], &["--set=admin.enabled=true"]].concat());
    assert!(!is_fine && error.contains("admin.enabled needs admin-tokens"), "{error}");
}

/// Kubernetes's own schemas know every object and every field. Those of operators are not among them.
const KUBERNETES: &str = r#"
import sys, yaml, kubernetes_validate
for one in yaml.safe_load_all(sys.stdin):
    if one and not one["apiVersion"].startswith("monitoring."):
        kubernetes_validate.validate(one, "1.30", strict=True)
        print(one["kind"])
"#;

#[test]
fn kubernetes_knows_every_field() {
    let (Some(helm), Some(python)) =
        (tidegate_testkit::peer("helm"), tidegate_testkit::peer("python"))
    else {
        return;
    };
    let has_schemas = Command::new(&python).args(["-c", "import kubernetes_validate"]).output();
    if !has_schemas.unwrap().status.success() {
        tidegate_testkit::skipped("kubernetes-validate");
        return;
    }
    let scratch = tidegate_testkit::Scratch::new();
    let validate = |text: &str| {
        let file = fs::File::open(scratch.write("objects.yaml", text)).unwrap();
        let said = Command::new(&python).args(["-c", KUBERNETES]).stdin(file).output().unwrap();
        assert!(said.status.success(), "{}\n{text}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().lines().count()
    };
    let mut command = Command::new(&helm);
    command.args(TEMPLATE).args(EVERYTHING).arg(root().join("deploy/helm/tidegate"));
    let chart = output_of(&mut command).stdout;
    assert!(validate(&String::from_utf8(chart).unwrap()) >= 8);
    for file in ["base/deployment.yaml", "base/service.yaml", "redis/disruption.yaml"] {
        assert_eq!(validate(&read(&root().join("deploy/kustomize").join(file))), 1, "{file}");
    }
}

#[test]
fn actionlint_finds_nothing() {
    let Some(actionlint) = tidegate_testkit::peer("actionlint") else { return };
    let said =
        output_of(Command::new(actionlint).arg("-no-color").args(files(".github/workflows")));
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
}

/// Workflows run scripts of this repository, and actions whose content cannot change.
#[test]
fn workflows_run_what_is_here_and_what_cannot_change() {
    let mut steps = Vec::new();
    for path in files(".github/workflows") {
        for workflow in documents(&read(&path)).unwrap() {
            for job in workflow["jobs"].as_object().unwrap().values() {
                steps.extend(job["steps"].as_array().unwrap().clone());
            }
        }
    }
    assert!(steps.len() > 10);
    for step in steps {
        if let Some(action) = step["uses"].as_str() {
            let (_, commit) = action.split_once('@').unwrap();
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_commit, "{action}");
        } else {
            let program = step["run"].as_str().unwrap().split(' ').next().unwrap();
            let is_here = program == "gh" || root().join(program).is_file();
            assert!(is_here, "{program} is not in this repository");
        }
    }
}
