//! What `pg_controldata` says about a data directory.

use super::lsn::Lsn;

const SYSTEM_ID: &str = "Database system identifier";
const CHECKPOINT: &str = "Latest checkpoint location";
const TIMELINE: &str = "Latest checkpoint's TimeLineID";
const CHECKSUMS: &str = "Data page checksum version";

/// The part of the control file that the suite uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlData {
    /// Given by initdb; the same in every copy.
    pub system_id: u64,
    /// In PostgreSQL's words: `shut down`, `in production`, …
    pub state: String,
    /// Where the latest checkpoint's record begins.
    pub checkpoint: Lsn,
    /// The timeline of the latest checkpoint. Stale after a promotion until the next checkpoint.
    pub timeline: i64,
    /// Whether pages carry checksums.
    pub data_checksums: bool,
}

/// The output lacks something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "pg_controldata gave no usable {field:?}; is the data directory damaged, or the program of another major?"
)]
pub struct Incomplete {
    /// The line that is absent or malformed.
    pub field: &'static str,
}

/// Reads the output of `LC_ALL=C pg_controldata`.
pub fn parse(output: &str) -> Result<ControlData, Incomplete> {
    let line = |field: &'static str| {
        let found = output
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.map(str::trim).ok_or(Incomplete { field })
    };
    Ok(ControlData {
        system_id: line(SYSTEM_ID)?
            .parse()
            .map_err(|_| Incomplete { field: SYSTEM_ID })?,
        state: line("Database cluster state")?.to_owned(),
        checkpoint: line(CHECKPOINT)?
            .parse()
            .map_err(|_| Incomplete { field: CHECKPOINT })?,
        timeline: line(TIMELINE)?
            .parse()
            .map_err(|_| Incomplete { field: TIMELINE })?,
        data_checksums: line(CHECKSUMS)? != "0",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
pg_control version number:            1300
Catalog version number:               202209061
Database system identifier:           7432098765432109876
Database cluster state:               shut down
pg_control last modified:             Mon Dec  1 10:00:00 2025
Latest checkpoint location:           0/14E9A30
Latest checkpoint's REDO location:    0/14E9A30
Latest checkpoint's REDO WAL file:    000000010000000000000001
Latest checkpoint's TimeLineID:       3
Latest checkpoint's PrevTimeLineID:   1
Data page checksum version:           1
";

    #[test]
    fn the_identity_of_a_database_is_read_exactly() {
        let seen = parse(OUTPUT).unwrap();
        assert_eq!(seen.system_id, 7_432_098_765_432_109_876);
        assert_eq!(seen.state, "shut down");
        assert_eq!(seen.checkpoint.to_string(), "0/14E9A30");
        assert_eq!(seen.timeline, 3);
        assert!(seen.data_checksums);
    }

    #[test]
    fn a_damaged_control_file_is_an_error_and_never_a_guess() {
        for field in [
            "Database system identifier",
            "Latest checkpoint location",
            "Latest checkpoint's TimeLineID",
        ] {
            let without: String = OUTPUT
                .lines()
                .filter(|l| !l.starts_with(field))
                .flat_map(|l| [l, "\n"])
                .collect();
            assert_eq!(parse(&without).unwrap_err().field, field);
            let broken = OUTPUT.replace(&format!("{field}:"), &format!("{field}: ?"));
            assert_eq!(parse(&broken).unwrap_err().field, field);
        }
    }
}
