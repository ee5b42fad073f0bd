//! The data directory: what is there, and how a new one is made.
//!
//! initdb works in a folder beside it, and a rename makes the result the data directory: under its final name it is
//! finished, or it is not ours.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::durable::{self, failed};
use super::options::Options;
use crate::control::{Data, Initdb, Member};
use crate::postgres::control_data;
use crate::postgres::programs::{self, Programs};
use crate::postgres::version::{self, Version};

/// The data directory is not made, or cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The volume.
    #[error(transparent)]
    File(#[from] durable::Failed),
    /// The image.
    #[error(transparent)]
    Programs(#[from] programs::Missing),
    /// A program could not be run.
    #[error("{program} could not be run: {source}")]
    Run {
        /// Which.
        program: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The control file.
    #[error("{path}: {reason}; the data directory is damaged, restore it from a backup", path = path.display())]
    Damaged {
        /// The data directory.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// initdb would destroy something.
    #[error("initdb is refused: {0}")]
    Refused(String),
}

/// What is in the data directory. `Empty` is certain; what cannot be read is an error.
pub fn inspect(options: &Options, member: Option<&Member>) -> Result<Data, Error> {
    let pgdata = options.pgdata();
    let exists = |path: &Path| path.try_exists().map_err(failed("look at", path));
    let version = durable::read(&pgdata.join("PG_VERSION"))?;
    let control = exists(&pgdata.join("global/pg_control"))?;
    let damaged = |reason: &str| Error::Damaged {
        path: pgdata.clone(),
        reason: reason.to_owned(),
    };
    let version = match (version, control) {
        (Some(version), true) => version,
        _ if member.is_some_and(|m| m.opened_in > 0) && exists(&pgdata.join("base"))? => {
            return Err(damaged(
                "PG_VERSION or global/pg_control is missing from a database that was open before",
            ));
        }
        _ => return Ok(Data::Empty),
    };
    let major = version::of_data_directory(&version).ok_or_else(|| damaged("PG_VERSION holds no version"))?;
    let programs = Programs::find(options.bin_dir.as_deref(), Some(major))?;
    let program = "pg_controldata";
    let output = Command::new(programs.path(program))
        .arg("-D")
        .arg(&pgdata)
        .env_clear()
        .env("LC_ALL", "C")
        .output();
    let output = output.map_err(|source| Error::Run { program, source })?;
    if !output.status.success() {
        return Err(damaged(String::from_utf8_lossy(&output.stderr).trim()));
    }
    let control =
        control_data::parse(&String::from_utf8_lossy(&output.stdout)).map_err(|e| damaged(&e.to_string()))?;
    Ok(Data::Initialised {
        system_id: control.system_id.to_string(),
        timeline: control.timeline,
        checkpoint: control.checkpoint.to_string(),
        major: major.to_string(),
    })
}

/// Before a start: the mode that PostgreSQL insists on, and, as PID 1, no lock files of a container that is gone
/// (the process that they name may be another's now; that nobody else uses the volume is the volume's own promise).
pub fn prepare_start(options: &Options) -> Result<(), durable::Failed> {
    let pgdata = options.pgdata();
    fs::set_permissions(&pgdata, Permissions::from_mode(0o700))
        .map_err(failed("set the mode of", &pgdata))?;
    if std::process::id() == 1 {
        durable::remove(&pgdata.join("postmaster.pid"))?;
        let socket = format!(".s.PGSQL.{}", options.port);
        durable::remove(&options.socket_dir.join(format!("{socket}.lock")))?;
        durable::remove(&options.socket_dir.join(socket))?;
    }
    Ok(())
}

/// Clears what an earlier attempt left, and says how initdb is to be run. Refused when there could be a database.
pub fn begin_initdb(wish: &Initdb, options: &Options, member: Option<&Member>) -> Result<Command, Error> {
    if let Some(member) = member.filter(|m| m.opened_in > 0) {
        let term = member.opened_in;
        return Err(Error::Refused(format!(
            "member.json says that the database was open in term {term}"
        )));
    }
    if inspect(options, member)? != Data::Empty {
        return Err(Error::Refused("there is a finished data directory".into()));
    }
    let programs = Programs::find(options.bin_dir.as_deref(), None)?;
    let major = server_major(&programs)?;
    let arguments = arguments(wish, major).map_err(Error::Refused)?;
    let new = options.pgdata_new();
    let attempted = new.try_exists().map_err(failed("look at", &new))?;
    let pg_wal = options.pg_wal();
    if let Some(pg_wal) = &pg_wal
        && !attempted
        && holds_something(pg_wal)?
    {
        let path = pg_wal.display();
        return Err(Error::Refused(format!(
            "{path} holds the log of a database whose data directory is missing"
        )));
    }
    for path in [Some(&options.pgdata()), pg_wal.as_ref(), Some(&new)]
        .into_iter()
        .flatten()
    {
        durable::remove(path)?;
    }
    fs::create_dir(&new).map_err(failed("make", &new))?;
    fs::set_permissions(&new, Permissions::from_mode(0o700)).map_err(failed("set the mode of", &new))?;
    durable::sync_folder(&options.data)?;
    let mut command = Command::new(programs.path("initdb"));
    command.arg("-D").arg(&new).args(arguments);
    if let Some(pg_wal) = pg_wal {
        command.arg(format!("--waldir={}", pg_wal.display()));
    }
    Ok(command)
}

/// initdb succeeded: its result becomes the data directory.
pub fn finish_initdb(options: &Options) -> Result<(), durable::Failed> {
    let (new, pgdata) = (options.pgdata_new(), options.pgdata());
    fs::rename(&new, &pgdata).map_err(failed("give its name to", &pgdata))?;
    durable::sync_folder(&options.data)
}

/// The major of the server in this image.
pub fn server_major(programs: &Programs) -> Result<u32, Error> {
    let program = "postgres";
    let unable = |source| Error::Run { program, source };
    let output = Command::new(programs.path(program))
        .arg("--version")
        .output()
        .map_err(unable)?;
    let version: Version = String::from_utf8_lossy(&output.stdout)
        .parse()
        .map_err(|e: version::NotAVersion| unable(std::io::Error::other(e.to_string())))?;
    Ok(version.major)
}

fn holds_something(folder: &Path) -> Result<bool, durable::Failed> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed("look into", folder)(e)),
    }
}

/// initdb's arguments, each value checked against its grammar.
fn arguments(wish: &Initdb, major: u32) -> Result<Vec<String>, String> {
    let is = |text: &str, more: &str| {
        (1..=64).contains(&text.len())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
    };
    if !is(&wish.encoding, "_") {
        return Err("the encoding is no name of an encoding".into());
    }
    if !is(&wish.locale, "_.@-") || wish.locale.starts_with('-') {
        return Err("the locale is no name of a locale".into());
    }
    let locale = &wish.locale;
    let mut arguments = vec![
        "--username=postgres".to_owned(),
        "--auth-local=peer".into(),
        "--auth-host=scram-sha-256".into(),
        format!("--encoding={}", wish.encoding),
        format!("--locale-provider={}", wish.locale_provider),
    ];
    match wish.locale_provider.as_str() {
        "libc" => arguments.push(format!("--locale={locale}")),
        "icu" => arguments.extend(["--locale=C.UTF-8".into(), format!("--icu-locale={locale}")]),
        "builtin" if major >= 17 => {
            arguments.extend(["--locale=C.UTF-8".into(), format!("--builtin-locale={locale}")]);
        }
        "builtin" => {
            return Err(format!(
                "the locale provider builtin needs PostgreSQL 17, and this is {major}"
            ));
        }
        _ => return Err("the locale provider is none of libc, icu, builtin".into()),
    }
    match wish.data_checksums {
        true => arguments.push("--data-checksums".into()),
        false if major >= 18 => arguments.push("--no-data-checksums".into()),
        false => {}
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(provider: &str, locale: &str, data_checksums: bool) -> Initdb {
        Initdb {
            data_checksums,
            encoding: "UTF8".into(),
            locale_provider: provider.into(),
            locale: locale.into(),
        }
    }

    #[test]
    fn every_major_gets_the_checksums_and_the_locale_that_were_asked_for() {
        let has =
            |wish: &Initdb, major, flag: &str| arguments(wish, major).unwrap().iter().any(|a| a == flag);
        assert!(has(&wish("libc", "C.UTF-8", true), 15, "--data-checksums"));
        assert!(has(&wish("libc", "C.UTF-8", true), 15, "--locale=C.UTF-8"));
        assert!(has(&wish("libc", "C", false), 18, "--no-data-checksums"));
        assert!(
            !has(&wish("libc", "C", false), 17, "--no-data-checksums"),
            "17 does not know it"
        );
        assert!(has(&wish("icu", "de-DE", true), 15, "--icu-locale=de-DE"));
        assert!(has(
            &wish("builtin", "C.UTF-8", true),
            17,
            "--builtin-locale=C.UTF-8"
        ));
        assert!(arguments(&wish("builtin", "C.UTF-8", true), 16).is_err());
    }

    #[test]
    fn no_value_becomes_another_argument() {
        for locale in ["", "-x", "C --allow-group-access", "C\n", "$(id)", "a/b"] {
            assert!(arguments(&wish("libc", locale, true), 15).is_err(), "{locale:?}");
        }
        assert!(arguments(&wish("libc --x", "C", true), 15).is_err());
    }

    #[test]
    fn a_database_that_was_open_is_never_initialised_again() {
        let root = std::env::temp_dir().join(format!("sampledb-pgdata-{}", std::process::id()));
        let options = Options {
            data: root.join("data"),
            wal: Some(root.join("wal")),
            ..Options::default()
        };
        fs::create_dir_all(&options.data).unwrap();
        let member = Member {
            version: 1,
            uid: "u".into(),
            claim_uid: "c".into(),
            promised: 4,
            primary_of: 4,
            opened_in: 4,
            resigned: None,
            marked: false,
        };
        let refused = begin_initdb(&wish("libc", "C", true), &options, Some(&member))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("was open in term 4"), "{refused}");
        fs::create_dir_all(options.pgdata().join("base")).unwrap();
        assert!(
            matches!(inspect(&options, Some(&member)), Err(Error::Damaged { .. })),
            "not taken for an empty one"
        );
        assert_eq!(inspect(&options, None).unwrap(), Data::Empty);
        fs::remove_dir_all(root).unwrap();
    }
}
