//! The processes of the test cluster's nodes, which are this machine's.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders in /proc of the processes of a program.
pub fn processes(program: &str) -> Vec<PathBuf> {
    let is = |folder: &Path| {
        let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
        let command = fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
        name.trim().len() > 8
            && program.starts_with(name.trim())
            && command.split('\0').next().unwrap_or_default().ends_with(program)
    };
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    all.map(|entry| entry.path())
        .filter(|folder| is(folder))
        .collect()
}
