//! Generates code for the messages of Envoy's rate limit service and of OpenTelemetry's collector,
//! from `crates/wire/proto`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Writes the files that `crates/wire` has checked in.
pub(crate) fn write() -> anyhow::Result<()> {
    for (name, contents) in generate()? {
        let path = directory().join(&name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))?;
        println!("{GENERATED}/{name}");
    }
    Ok(())
}

/// The generated files by name.
fn generate() -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let described = protox::compile([SERVICE], [root().join(PROTO)])?;
    let described = prost::Message::encode_to_vec(&described);
    let files = protox::compile([SERVICE, COLLECTOR], [root().join(PROTO)])?;
    let scratch = tempfile::tempdir()?;
    tonic_prost_build::configure()
        .out_dir(scratch.path())
        .build_client(false)
        .emit_rerun_if_changed(false)
        .server_mod_attribute(".", "#[cfg(feature = \"service\")]")
        .bytes(".envoy.extensions")
        .compile_fds(with_any_value(files))?;
    let mut generated = BTreeMap::from([(DESCRIPTORS.to_owned(), described)]);
    for entry in fs::read_dir(scratch.path())? {
        let entry = entry?;
        // A package name with the prefix of a raw identifier is not a valid file name.
        let name = entry.file_name().to_string_lossy().replace("r#", "");
        generated.insert(name, fs::read(entry.path())?);
    }
    Ok(generated)
}

/// Values of entries are read as bytes, which look the same on the wire. Envoy fills them with what
/// clients send; a client whose header is not UTF-8 would otherwise make every message about it
/// unreadable, and Envoy would let it pass.
fn with_any_value(mut files: FileDescriptorSet) -> FileDescriptorSet {
    let messages = files.file.iter_mut().flat_map(|file| &mut file.message_type);
    let nested = messages.flat_map(|message| &mut message.nested_type);
    let is_entry = |message: &&mut DescriptorProto| message.name() == "Entry";
    for entry in nested.filter(is_entry) {
        let value = entry.field.iter_mut().find(|field| field.name() == "value");
        if let Some(value) = value {
            value.set_type(Type::Bytes);
        }
    }
    files
}

fn directory() -> PathBuf {
    root().join(GENERATED)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

const PROTO: &str = "crates/wire/proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";
const COLLECTOR: &str = "opentelemetry/proto/collector/trace/v1/trace_service.proto";
const GENERATED: &str = "crates/wire/src/generated";
/// The descriptors for gRPC reflection: the files of the service, unchanged.
const DESCRIPTORS: &str = "descriptors.bin";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_checked_in_is_what_would_be_generated() {
        let expected = generate().unwrap();
        let found: BTreeMap<String, Vec<u8>> = fs::read_dir(directory())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().to_string_lossy().into_owned();
                (name, fs::read(entry.path()).unwrap())
            })
            .collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        for (name, contents) in &expected {
            assert!(
                found[name] == *contents,
                "{name} is out of date: cargo run -p xtask -- protobuf"
            );
        }
    }
}
