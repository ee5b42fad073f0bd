//! Files of the agent's own folder, which no other container mounts.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open, rename};

/// Reads a file, never through a symbolic link. Absent is `None`.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    let fd = match open(
        path,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut text = String::new();
    File::from(fd).take(1 << 22).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Replaces a file as a whole, readable for the agent alone.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = open(&new, flags, Mode::RUSR | Mode::WUSR)?;
    let mut file = File::from(fd);
    file.write_all(text.as_bytes())?;
    drop(file);
    rename(&new, path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("agent-state-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (link, file) = (folder.join("link"), folder.join("runner.key"));
        write(&file, "secret").unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some("secret"));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(read(&link).is_err());
        assert_eq!(read(&folder.join("none")).unwrap(), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
