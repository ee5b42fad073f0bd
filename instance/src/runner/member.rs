//! `member.json`: what this member must remember, whatever happens to PGDATA or to the container.

use std::path::Path;

use super::durable;
use crate::control::Member;

/// The form of the file that this version writes and reads.
const VERSION: u32 = 1;

/// The memory cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error(transparent)]
    File(#[from] durable::Failed),
    /// Its content.
    #[error("{path} is damaged ({reason}); restore it, or start this member from an empty volume")]
    Damaged {
        /// Where.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A version that is not ours.
    #[error(
        "member.json has the form {0}, and this version knows {VERSION} only; use the version that wrote it"
    )]
    Form(u32),
    /// A promise would be forgotten.
    #[error("refused to forget: {field} is {present} and may not become {asked}")]
    Backwards {
        /// Which number.
        field: &'static str,
        /// In the file.
        present: i64,
        /// In the command.
        asked: i64,
    },
}

/// Reads it; `None` when there is none.
pub fn load(path: &Path) -> Result<Option<Member>, Error> {
    let Some(content) = durable::read(path)? else {
        return Ok(None);
    };
    let damaged = |e: serde_json::Error| Error::Damaged {
        path: path.display().to_string(),
        reason: e.to_string(),
    };
    let member: Member = serde_json::from_str(&content).map_err(damaged)?;
    if member.version == VERSION {
        Ok(Some(member))
    } else {
        Err(Error::Form(member.version))
    }
}

/// Whether `next` may follow `present`: the numbers of one volume in one SampleDB only grow.
pub fn check(present: Option<&Member>, next: &Member) -> Result<(), Error> {
    if next.version != VERSION {
        return Err(Error::Form(next.version));
    }
    let Some(present) = present.filter(|p| p.uid == next.uid && p.claim_uid == next.claim_uid) else {
        return Ok(());
    };
    let numbers = [
        ("promised", present.promised, next.promised),
        ("primaryOf", present.primary_of, next.primary_of),
        ("openedIn", present.opened_in, next.opened_in),
    ];
    match numbers.into_iter().find(|(_, present, asked)| asked < present) {
        Some((field, present, asked)) => Err(Error::Backwards {
            field,
            present,
            asked,
        }),
        None => Ok(()),
    }
}

/// Writes it; durable when this returns.
pub fn save(path: &Path, member: &Member) -> Result<(), Error> {
    let damaged = |e: serde_json::Error| Error::Damaged {
        path: path.display().to_string(),
        reason: e.to_string(),
    };
    let mut content = serde_json::to_vec(member).map_err(damaged)?;
    content.push(b'\n');
    Ok(durable::write(path, &content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(promised: i64) -> Member {
        Member {
            version: 1,
            uid: "u".into(),
            claim_uid: "c".into(),
            promised,
            primary_of: 1,
            opened_in: 1,
            resigned: None,
            marked: false,
        }
    }

    #[test]
    fn a_promise_is_never_taken_back_on_the_same_volume() {
        assert!(check(None, &member(0)).is_ok());
        assert!(check(Some(&member(3)), &member(3)).is_ok());
        let refused = check(Some(&member(3)), &member(2)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "refused to forget: promised is 3 and may not become 2"
        );
        let other_volume = Member {
            claim_uid: "d".into(),
            ..member(0)
        };
        assert!(check(Some(&member(3)), &other_volume).is_ok());
    }

    #[test]
    fn what_was_remembered_is_read_back_and_a_damaged_file_is_not_taken_for_none() {
        let folder = std::env::temp_dir().join(format!("sampledb-member-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("member.json");
        assert_eq!(load(&path).unwrap(), None);
        save(&path, &member(7)).unwrap();
        assert_eq!(load(&path).unwrap(), Some(member(7)));
        std::fs::write(&path, "{\"version\":1").unwrap();
        assert!(matches!(load(&path), Err(Error::Damaged { .. })));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
