//! PostgreSQL's configuration files: checked before they are used, and put back when PostgreSQL does not start.
//!
//! The files in PGDATA are those last accepted. Beside them, in [`PROVEN`], are those with which PostgreSQL last
//! started: what a check cannot see (memory that is not there, say) shows only at a start, and must not keep a
//! database down that ran before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::durable;
use super::log::Tail;
use super::options::Options;
use crate::control::Configuration;
use crate::postgres::programs::Programs;

const MAIN: &str = "postgresql.conf";
const HBA: &str = "pg_hba.conf";
const IDENT: &str = "pg_ident.conf";
/// The files that make up a configuration.
const FILES: [&str; 3] = [MAIN, HBA, IDENT];
/// Holds the hash of the files beside it; absent while they are being replaced.
const HASH: &str = "sampledb.hash";
/// The folder in PGDATA with the files of the last successful start.
const PROVEN: &str = "sampledb.proven";
/// Longest content of one file; bytes.
const LONGEST: usize = 256 << 10;

/// A configuration is not applied.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not in the contract.
    #[error("the configuration was not applied: {0}")]
    Malformed(String),
    /// PostgreSQL's own words.
    #[error("{0}")]
    Refused(String),
    /// The program that checks could not be run.
    #[error("the configuration could not be checked: {0}")]
    Unchecked(std::io::Error),
    /// The volume.
    #[error(transparent)]
    File(#[from] durable::Failed),
}

/// The settings that no file and no `ALTER SYSTEM` may change: by them runner and agent find the server.
pub fn pinned(options: &Options) -> Vec<String> {
    let pgdata = options.pgdata();
    let settings = [
        format!("unix_socket_directories={}", options.socket_dir.display()),
        format!("port={}", options.port),
        format!("hba_file={}", pgdata.join(HBA).display()),
        format!("ident_file={}", pgdata.join(IDENT).display()),
    ];
    settings
        .into_iter()
        .flat_map(|setting| ["-c".to_owned(), setting])
        .collect()
}

/// Whether the configuration has the shape that the contract promises.
pub fn well_formed(configuration: &Configuration) -> Result<(), Error> {
    let hash = &configuration.hash;
    if !(1..=128).contains(&hash.len()) || !hash.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(Error::Malformed("its hash is no hash".into()));
    }
    for (name, content) in &configuration.files {
        if !FILES.contains(&name.as_str()) {
            return Err(Error::Malformed(format!("{name:?} is not one of {FILES:?}")));
        }
        if content.len() > LONGEST || content.contains('\0') {
            return Err(Error::Malformed(format!(
                "{name} is longer than {LONGEST} bytes, or holds a NUL"
            )));
        }
    }
    match [MAIN, HBA]
        .into_iter()
        .find(|name| !configuration.files.contains_key(*name))
    {
        Some(missing) => Err(Error::Malformed(format!("{missing} is missing"))),
        None => Ok(()),
    }
}

/// Has PostgreSQL read it, without touching the one in use. The candidate lies beside PostgreSQL's socket, in
/// memory: a full volume is no reason to refuse.
pub fn check(configuration: &Configuration, options: &Options, programs: &Programs) -> Result<(), Error> {
    well_formed(configuration)?;
    let folder = options.socket_dir.join(".sampledb-candidate");
    durable::remove(&folder)?;
    std::fs::create_dir_all(&folder).map_err(durable::failed("make", &folder))?;
    for (name, content) in &configuration.files {
        durable::write(&folder.join(name), content.as_bytes())?;
    }
    let setting = |name: &str, file: &str| format!("{name}={}", folder.join(file).display());
    let output = Command::new(programs.path("postgres"))
        .arg("-D")
        .arg(options.pgdata())
        .args(pinned(options))
        .args([
            "-c",
            &setting("config_file", MAIN),
            "-c",
            &setting("hba_file", HBA),
            "-C",
            "shared_buffers",
        ])
        .env_clear()
        .env("LC_ALL", "C")
        .output()
        .map_err(Error::Unchecked);
    durable::remove(&folder)?;
    let output = output?;
    if output.status.success() {
        return Ok(());
    }
    let mut tail = Tail::default();
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .for_each(|line| tail.push(line));
    let text = tail.text().replace(&format!("{}/", folder.display()), "");
    Err(Error::Refused(if text.is_empty() {
        format!("postgres -C: {}", output.status)
    } else {
        text
    }))
}

/// The hash of the configuration in PGDATA; `None` when there is none, or a half-replaced one.
pub fn hash(options: &Options) -> Result<Option<String>, durable::Failed> {
    read_hash(&options.pgdata())
}

/// The configuration in PGDATA.
pub fn present(options: &Options) -> Result<Option<Configuration>, durable::Failed> {
    read_from(&options.pgdata())
}

/// Replaces the files in PGDATA. A crash in between leaves a configuration without a hash, which is replaced again.
pub fn apply(configuration: &Configuration, options: &Options) -> Result<(), durable::Failed> {
    write_to(&options.pgdata(), configuration)
}

/// The configuration of the last successful start, when it is another than the one in PGDATA.
pub fn fallback(options: &Options) -> Result<Option<Configuration>, durable::Failed> {
    let proven = read_from(&options.pgdata().join(PROVEN))?;
    let present = hash(options)?;
    Ok(proven.filter(|proven| Some(&proven.hash) != present.as_ref()))
}

/// PostgreSQL started with the configuration in PGDATA: it is the one to fall back to.
pub fn prove(options: &Options) -> Result<(), durable::Failed> {
    let folder: PathBuf = options.pgdata().join(PROVEN);
    let Some(present) = present(options)? else {
        return Ok(());
    };
    if read_hash(&folder)?.as_ref() == Some(&present.hash) {
        return Ok(());
    }
    match std::fs::create_dir(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(durable::failed("make", &folder)(e));
        }
        _ => {}
    }
    write_to(&folder, &present)
}

fn read_hash(folder: &Path) -> Result<Option<String>, durable::Failed> {
    durable::read(&folder.join(HASH))
}

fn read_from(folder: &Path) -> Result<Option<Configuration>, durable::Failed> {
    let Some(hash) = read_hash(folder)? else {
        return Ok(None);
    };
    let mut files = BTreeMap::new();
    for name in FILES {
        if let Some(content) = durable::read(&folder.join(name))? {
            files.insert(name.to_owned(), content);
        }
    }
    Ok(Some(Configuration { hash, files }))
}

fn write_to(folder: &Path, configuration: &Configuration) -> Result<(), durable::Failed> {
    durable::remove(&folder.join(HASH))?;
    for (name, content) in &configuration.files {
        durable::write(&folder.join(name), content.as_bytes())?;
    }
    durable::write(&folder.join(HASH), configuration.hash.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(hash: &str, files: &[(&str, &str)]) -> Configuration {
        let files = files
            .iter()
            .map(|(name, content)| ((*name).to_owned(), (*content).to_owned()))
            .collect();
        Configuration {
            hash: hash.into(),
            files,
        }
    }

    #[test]
    fn no_file_is_written_that_is_not_a_configuration_file() {
        let whole = [(MAIN, ""), (HBA, ""), (IDENT, "")];
        assert!(well_formed(&configuration("a1", &whole)).is_ok());
        assert!(well_formed(&configuration("a1", &[(MAIN, ""), (HBA, "")])).is_ok());
        for (hash, files) in [
            ("a1", vec![(MAIN, "")]),
            ("a1", vec![(MAIN, ""), (HBA, ""), ("postgresql.auto.conf", "")]),
            ("a1", vec![(MAIN, ""), (HBA, ""), ("../member.json", "")]),
            ("a1", vec![(MAIN, "\0"), (HBA, "")]),
            ("", whole.to_vec()),
            ("a/b", whole.to_vec()),
        ] {
            assert!(
                well_formed(&configuration(hash, &files)).is_err(),
                "{hash} {files:?}"
            );
        }
    }

    #[test]
    fn a_configuration_that_ran_is_there_to_fall_back_to_until_the_next_one_ran() {
        let data = std::env::temp_dir().join(format!("sampledb-configuration-{}", std::process::id()));
        let options = Options {
            data: data.clone(),
            ..Options::default()
        };
        std::fs::create_dir_all(options.pgdata()).unwrap();
        let good = configuration("good", &[(MAIN, "a"), (HBA, "b"), (IDENT, "c")]);
        let bad = configuration("bad", &[(MAIN, "x"), (HBA, "y"), (IDENT, "z")]);
        assert_eq!(hash(&options).unwrap(), None);
        apply(&good, &options).unwrap();
        assert_eq!(fallback(&options).unwrap(), None);
        prove(&options).unwrap();
        apply(&bad, &options).unwrap();
        assert_eq!(hash(&options).unwrap().as_deref(), Some("bad"));
        assert_eq!(fallback(&options).unwrap(), Some(good.clone()));
        prove(&options).unwrap();
        assert_eq!(fallback(&options).unwrap(), None);
        std::fs::remove_dir_all(data).unwrap();
    }
}
