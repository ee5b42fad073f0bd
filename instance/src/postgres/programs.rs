//! Where PostgreSQL's programs are.

use std::path::{Path, PathBuf};

/// Where Debian's and PostgreSQL's own packages put them: a folder a major, `bin` in it.
const PACKAGES: &str = "/usr/lib/postgresql";

/// The folder of one version's programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    folder: PathBuf,
}

/// There are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Not where they were said to be.
    #[error(
        "there is no program `postgres` in {0}; correct --bin-dir, or use an image with PostgreSQL in it"
    )]
    InFolder(PathBuf),
    /// The data directory needs a major that is not installed.
    #[error(
        "PostgreSQL {major} is not in this image ({PACKAGES}/{major}/bin), and the data directory was made by it; use an image of that major"
    )]
    Major {
        /// In PG_VERSION.
        major: u32,
    },
    /// No major at all.
    #[error("no PostgreSQL is in this image ({PACKAGES}/*/bin); use an image with PostgreSQL in it")]
    Any,
}

impl Programs {
    /// The programs for a data directory of `major`, or, when there is none yet, of the highest major installed.
    /// A folder that was named wins.
    pub fn find(named: Option<&Path>, major: Option<u32>) -> Result<Self, Missing> {
        match named {
            Some(folder) if folder.join("postgres").is_file() => Ok(Self {
                folder: folder.to_owned(),
            }),
            Some(folder) => Err(Missing::InFolder(folder.to_owned())),
            None => Self::find_in(Path::new(PACKAGES), major),
        }
    }

    fn find_in(packages: &Path, major: Option<u32>) -> Result<Self, Missing> {
        let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(packages)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let folder = entry.path().join("bin");
                let major = entry.file_name().to_str()?.parse().ok()?;
                folder.join("postgres").is_file().then_some((major, folder))
            })
            .collect();
        found.sort();
        match major {
            Some(major) => found
                .into_iter()
                .find(|(m, _)| *m == major)
                .ok_or(Missing::Major { major }),
            None => found.pop().ok_or(Missing::Any),
        }
        .map(|(_, folder)| Self { folder })
    }

    /// The path of a program.
    pub fn path(&self, program: &str) -> PathBuf {
        self.folder.join(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_never_started_with_another_major() {
        let root = std::env::temp_dir().join(format!("sampledb-programs-{}", std::process::id()));
        for major in ["15", "9", "17", "nonsense"] {
            std::fs::create_dir_all(root.join(major).join("bin")).unwrap();
            std::fs::write(root.join(major).join("bin/postgres"), "").unwrap();
        }
        assert_eq!(
            Programs::find_in(&root, None).unwrap().path("initdb"),
            root.join("17/bin/initdb")
        );
        assert_eq!(
            Programs::find_in(&root, Some(15)).unwrap().path("postgres"),
            root.join("15/bin/postgres")
        );
        assert_eq!(
            Programs::find_in(&root, Some(16)),
            Err(Missing::Major { major: 16 })
        );
        assert!(matches!(
            Programs::find(Some(&root), None),
            Err(Missing::InFolder(_))
        ));
        std::fs::remove_dir_all(root).unwrap();
    }
}
