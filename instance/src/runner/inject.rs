//! `sampledb-runner inject <folder>`: the init container puts the runner where the database image can run it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::durable::{Failed, failed};

/// The binary's name.
pub const NAME: &str = "sampledb-runner";

/// Copies this binary into `folder`, mode 0555, whole or not at all; where it is.
pub fn inject(own: &Path, folder: &Path) -> Result<PathBuf, Failed> {
    let target = folder.join(NAME);
    let part = folder.join(format!("{NAME}.tmp"));
    let _ = fs::remove_file(&part);
    fs::copy(own, &part).map_err(failed("write", &part))?;
    fs::set_permissions(&part, Permissions::from_mode(0o555)).map_err(failed("set the mode of", &part))?;
    fs::rename(&part, &target).map_err(failed("give its name to", &target))?;
    Ok(target)
}
