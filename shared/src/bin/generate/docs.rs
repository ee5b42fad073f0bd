//! The ownership table of the docs.

use std::fmt::Write;

use sampledb_shared::api::ownership::{AGENT, WRITERS, Writer};

/// The line before the table.
pub const BEGIN: &str = "<!-- ownership: begin -->";
/// The line after it.
pub const END: &str = "<!-- ownership: end -->";

/// `page` with the table of today between its markers; `None` when it has none.
pub fn replaced(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}{END}{after}", table()))
}

fn table() -> String {
    let mut text = String::from(
        "| writer (field manager) | fields of status | conditions | kinds of children |\n|---|---|---|---|\n",
    );
    for writer in WRITERS {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            name(writer),
            list(writer.sections.iter().copied()),
            list(writer.conditions.iter().map(|c| c.as_str())),
            list(writer.children.iter().map(|c| c.resource)),
        );
    }
    text
}

fn name(writer: &Writer) -> String {
    if writer == &AGENT {
        format!("`{0}`, `{0}-<ordinal>`", writer.manager)
    } else {
        format!("`{}`", writer.manager)
    }
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_page_is_left_alone() {
        let page = format!("# Title\n\n{BEGIN}\nold\n{END}\n\nafter\n");
        let new = replaced(&page).unwrap();
        assert!(new.starts_with("# Title\n\n") && new.ends_with("\n\nafter\n") && !new.contains("old"));
        assert_eq!(replaced(&new).unwrap(), new);
    }

    #[test]
    fn a_page_without_markers_is_an_error_and_not_a_silent_nothing() {
        assert_eq!(replaced("# Title\n"), None);
    }
}
