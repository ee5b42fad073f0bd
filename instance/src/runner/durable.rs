//! Files that are there after a power cut, whole or not at all.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file or folder could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}: {source}", path = path.display())]
pub struct Failed {
    /// What was tried.
    pub what: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why not.
    pub source: io::Error,
}

/// Names what failed.
pub fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failed {
    move |source| Failed {
        what,
        path: path.to_owned(),
        source,
    }
}

/// Replaces a file: a reader, and a start after a crash, finds the old content or the new, never a part. The file
/// is owned by this process' user, mode 0600, and on disk when this returns.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Failed> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = PathBuf::from(name);
    let written = write_new(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if let Err(source) = written {
        let _ = fs::remove_file(&temporary);
        return Err(failed("write", path)(source));
    }
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.sync_all()
}

/// Makes renames and removals in a folder durable.
pub fn sync_folder(folder: &Path) -> Result<(), Failed> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .map_err(failed("sync", folder))
}

/// Removes a file or a folder with all in it; absent already is fine. A symbolic link is removed, not followed.
pub fn remove(path: &Path) -> Result<(), Failed> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(failed("look at", path)(e)),
    };
    if kind.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    }
    .map_err(failed("remove", path))
}

/// The content of a file; `None` when there is none.
pub fn read(path: &Path) -> Result<Option<String>, Failed> {
    match fs::read_to_string(path) {
        Ok(content) => Ok(Some(content)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", path)(e)),
    }
}
