//! The owner's name and verifier, as the kubelet mounts them from the Secret.

use std::fmt;
use std::io;

use sampledb_shared::domain::names::paths;

use super::settings::Settings;

/// The owner.
#[derive(Clone, PartialEq, Eq)]
pub struct Owner {
    /// The role.
    pub name: String,
    /// Its SCRAM-SHA-256 verifier.
    pub verifier: String,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Reads it. The folder is the kubelet's, mounted into the agent alone; a link in it is its way of changing both
/// files at once.
pub fn read(settings: &Settings) -> io::Result<Owner> {
    let file = |name: &str| {
        let path = settings.file(paths::OWNER, name);
        std::fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    Ok(Owner {
        name: file("username")?,
        verifier: file("verifier")?,
    })
}
