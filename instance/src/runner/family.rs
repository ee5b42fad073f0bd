//! Which processes belong to PostgreSQL.
//!
//! Every backend makes a process group of its own, so a signal to the postmaster's group reaches none of them, and
//! one that is busy goes on, commits included, when the postmaster was killed. The runner is PID 1 (or a child
//! subreaper): whatever PostgreSQL started, programs of SQL included, is its descendant until it is gone.

use std::collections::{BTreeMap, BTreeSet};

use rustix::process::{Pid, Signal, kill_process};

/// A row of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The process.
    pub pid: i32,
    /// Its parent.
    pub parent: i32,
    /// Ended already, and only waiting to be reaped.
    pub ended: bool,
}

/// The live descendants of `root`, without the processes in `spared` and theirs. In the order of their numbers:
/// usually the postmaster first.
pub fn descendants(table: &[Row], root: i32, spared: &[i32]) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<&Row>> = BTreeMap::new();
    for row in table {
        children.entry(row.parent).or_default().push(row);
    }
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for row in children.get(&parent).into_iter().flatten() {
            if spared.contains(&row.pid) || !seen.insert(row.pid) {
                continue;
            }
            next.push(row.pid);
            if !row.ended {
                found.insert(row.pid);
            }
        }
    }
    found.into_iter().collect()
}

/// Reads one `/proc/<pid>/stat`. The name in parentheses may hold anything, parentheses and blanks included.
pub fn parse_stat(pid: i32, stat: &str) -> Option<Row> {
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    Some(Row {
        pid,
        parent: fields.next()?.parse().ok()?,
        ended,
    })
}

/// The process table. A process that ends meanwhile is left out.
fn table() -> std::io::Result<Vec<Row>> {
    let rows = std::fs::read_dir("/proc")?.filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        parse_stat(
            pid,
            &String::from_utf8_lossy(&std::fs::read(entry.path().join("stat")).ok()?),
        )
    });
    Ok(rows.collect())
}

/// The live descendants of this process, without `spared` and theirs.
pub fn mine(spared: &[i32]) -> std::io::Result<Vec<i32>> {
    Ok(descendants(&table()?, std::process::id() as i32, spared))
}

/// Sends a signal; a process that is gone already is no error.
pub fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = (pid > 1).then(|| Pid::from_raw(pid)).flatten() {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32) -> Row {
        Row {
            pid,
            parent,
            ended: false,
        }
    }

    #[test]
    fn no_backend_and_no_program_of_sql_survives_the_fence() {
        let table = [
            row(1, 0),
            row(20, 1),
            row(21, 20),
            row(22, 20),
            row(30, 21),
            row(31, 30),
            row(40, 1),
        ];
        assert_eq!(descendants(&table, 1, &[]), [20, 21, 22, 30, 31, 40]);
        assert_eq!(descendants(&table, 1, &[40]), [20, 21, 22, 30, 31]);
    }

    #[test]
    fn a_person_who_looks_around_in_the_container_is_not_killed() {
        let table = [row(1, 0), row(20, 1), row(77, 0), row(78, 77)];
        assert_eq!(descendants(&table, 1, &[]), [20]);
    }

    #[test]
    fn an_ended_process_is_not_waited_for_but_its_children_are_found() {
        let mut table = [row(1, 0), row(20, 1), row(21, 20)];
        table[1].ended = true;
        assert_eq!(descendants(&table, 1, &[]), [21]);
    }

    #[test]
    fn a_hostile_process_name_does_not_hide_a_process() {
        assert_eq!(parse_stat(7, "7 (a) S 99 (b) R 3 7 7 0"), Some(row(7, 3)));
        assert_eq!(
            parse_stat(7, "7 (postgres: x) Z 1 7 7 0"),
            Some(Row {
                ended: true,
                ..row(7, 1)
            })
        );
        assert_eq!(parse_stat(7, "7 (broken"), None);
    }
}
