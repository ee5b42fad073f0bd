//! A line of PostgreSQL's log or of its programs: where it says something.

/// What stands before a message, most serious first.
const MARKS: [&str; 7] = [
    "PANIC:", "FATAL:", "ERROR:", "WARNING:", "LOG:", "DETAIL:", "HINT:",
];

/// Without what log_line_prefix put before the severity: the time and the process number would make the same failure
/// a new one at every try. A line without a severity stays as it is.
pub fn from_severity(line: &str) -> &str {
    &line[mark(line).map_or(0, |(begins, _)| begins)..]
}

/// The message alone.
pub fn message(line: &str) -> &str {
    line[mark(line).map_or(0, |(_, ends)| ends)..].trim()
}

/// Where the first mark begins and ends.
fn mark(line: &str) -> Option<(usize, usize)> {
    let found = MARKS
        .iter()
        .filter_map(|mark| line.find(mark).map(|at| (at, at + mark.len())));
    found.min()
}
