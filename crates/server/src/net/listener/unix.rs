//! Binds unix sockets, replaces stale ones, and removes their files.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Listens at `path`. A socket on which no process listens was left behind by a crash, and is
/// replaced. The owner and the owner's group can connect.
pub(super) fn bind(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let socket = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_stale_socket(path) => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse && identity(path).is_err() => {
            let problem = "a file that is not a socket is in the way; expected it to be moved, or \
                           another path";
            return Err(io::Error::new(ErrorKind::AlreadyExists, problem));
        }
        bound => bound,
    }?;
    let file = SocketFile::at(path)?;
    fs::set_permissions(path, Permissions::from_mode(OWNER_AND_GROUP))?;
    socket.set_nonblocking(true)?;
    Ok((socket, file))
}

/// Whether the path is a socket on which no process listens. Any other file is not ours to remove.
fn is_stale_socket(path: &Path) -> bool {
    let refused = UnixStream::connect(path).err().map(|error| error.kind());
    identity(path).is_ok() && refused == Some(ErrorKind::ConnectionRefused)
}

/// The file of a socket. Removed when dropped, unless another file has taken its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The device and inode of a socket.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = fs::symlink_metadata(path)?;
    if !file.file_type().is_socket() {
        return Err(ErrorKind::InvalidInput.into());
    }
    Ok((file.dev(), file.ino()))
}

const OWNER_AND_GROUP: u32 = 0o660;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tidegate-{}-{name}.sock", std::process::id()))
    }

    #[test]
    fn a_socket_comes_with_its_file_and_goes_with_it() {
        let path = path("plain");
        let (socket, file) = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, OWNER_AND_GROUP);
        assert_eq!(bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok());
        drop((socket, file));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_is_replaced_and_other_files_are_not() {
        let path = path("left");
        drop(UnixListener::bind(&path).unwrap());
        let (_socket, file) = bind(&path).unwrap();
        // Another program has put its own file there.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(file);
        let refused = bind(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert!(refused.to_string().starts_with("a file that is not a socket is in the way"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }
}
