//! The parts of a release that need no release build: the image, the packages' scripts, the systemd unit.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn assert_success(command: &mut Command) {
    let output = run(command);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
}

fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").output().is_err();
    if is_missing {
        eprintln!("SKIPPED: {program} is not installed");
    }
    is_missing
}

/// Makes an image whose layer has this content.
fn image(content: &str) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let layer = directory.path().join("layer.tar");
    fs::write(&layer, content).unwrap();
    fs::write(directory.path().join("layer.tar.gz"), format!("packed {content}")).unwrap();
    let mut command = Command::new("python3");
    command.arg(root().join("scripts/oci-image")).arg(&layer).arg(directory.path().join("image"));
    assert_success(command.args(["amd64", "1.2.3", "0123abc", "2026-01-02T03:04:05Z"]));
    directory
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The blob that a descriptor describes.
fn blob(image: &Path, descriptor: &Value) -> PathBuf {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let path = image.join("blobs/sha256").join(digest);
    assert_eq!(Some(fs::metadata(&path).unwrap().len()), descriptor["size"].as_u64());
    path
}

#[test]
fn an_image_has_one_layer_no_root_and_a_health_check() {
    if is_missing("python3") {
        return;
    }
    let directory = image("a layer");
    let image = directory.path().join("image");
    let index = json(&image.join("index.json"));
    let manifest = json(&blob(&image, &index["manifests"][0]));
    let config = json(&blob(&image, &manifest["config"]));
    let layer = blob(&image, &manifest["layers"][0]);
    assert_eq!(fs::read_to_string(&layer).unwrap(), "packed a layer");
    let about = &config["config"];
    assert_eq!(about["User"], "65534:65534");
    assert_eq!(about["Entrypoint"][0], "/tidegate");
    assert_eq!(about["Healthcheck"]["Test"].to_string(), r#"["CMD","/tidegate","health"]"#);
    assert_eq!(about["Labels"]["org.opencontainers.image.revision"], "0123abc");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 1);
    // What `docker load` reads.
    let docker = json(&image.join("manifest.json"));
    assert_eq!(image.join(docker[0]["Layers"][0].as_str().unwrap()), layer);
    assert_eq!(docker[0]["RepoTags"][0], "tidegate/tidegate:1.2.3");
    // The listener of the container is the one of the Containerfile.
    let file = fs::read_to_string(root().join("deploy/container/Containerfile")).unwrap();
    for variable in about["Env"].as_array().unwrap() {
        assert!(file.contains(variable.as_str().unwrap()), "{variable}");
    }
}

#[test]
fn an_image_depends_on_its_layer_alone() {
    if is_missing("python3") {
        return;
    }
    let index = |image: &TempDir| fs::read(image.path().join("image/index.json")).unwrap();
    let (first, second, other) = (image("a layer"), image("a layer"), image("another"));
    assert!(index(&first) == index(&second));
    assert!(index(&first) != index(&other));
}

#[test]
fn a_release_has_the_version_of_the_workspace() {
    let output = run(Command::new(root().join("scripts/release")).arg("99.0.0"));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}

#[test]
fn shells_read_the_scripts() {
    let scripts =
        ["release", "release-check", "peers", "test"].map(|name| format!("scripts/{name}"));
    let others = [".ci/run", ".ci/release", ".ci/toolchain"].map(str::to_owned);
    for script in scripts.iter().chain(&others) {
        assert_success(Command::new("bash").arg("-n").arg(root().join(script)));
    }
    for script in ["postinst", "prerm", "postrm"] {
        let path = root().join("deploy/packages/deb").join(script);
        assert_success(Command::new("sh").arg("-n").arg(path));
    }
}

/// The first installation writes a token for operators that nobody else can read; an upgrade keeps it.
#[test]
fn a_package_writes_a_token_once_and_a_purge_removes_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let system = tempfile::tempdir().unwrap();
    let etc = system.path().join("etc/tidegate");
    fs::create_dir_all(&etc).unwrap();
    let script = |name: &str, step: &str| {
        let path = root().join("deploy/packages/deb").join(name);
        assert_success(Command::new("sh").arg(path).arg(step).env("DPKG_ROOT", system.path()));
    };
    script("postinst", "configure");
    let token = fs::read_to_string(etc.join("admin-tokens")).unwrap();
    let mode = fs::metadata(etc.join("admin-tokens")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let words: Vec<_> = token.split_whitespace().collect();
    assert!(matches!(words[..], ["admin", secret, "name=root"] if secret.len() == 64), "{token}");
    script("postinst", "configure");
    assert_eq!(fs::read_to_string(etc.join("admin-tokens")).unwrap(), token);
    script("prerm", "remove");
    script("postrm", "remove");
    assert!(etc.join("admin-tokens").exists());
    script("postrm", "purge");
    assert!(!etc.exists());
}

#[test]
fn systemd_accepts_the_unit() {
    if is_missing("systemd-analyze") {
        return;
    }
    let unit = fs::read_to_string(root().join("deploy/systemd/tidegate.service")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tidegate.service");
    // A program that exists: packages and people install ours in different places.
    fs::write(&path, unit.replace("/usr/local/bin/tidegate", "/bin/sh")).unwrap();
    let output = run(Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .arg(&path));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.contains("tidegate.service"), "{said}");
}
