//! A position in the write-ahead log, in PostgreSQL's notation.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log: bytes since the beginning of the cluster's history. Written as two
/// hexadecimal numbers, `0/3000148`; compared as numbers, never as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// The text is no position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no position in the write-ahead log; expected two hexadecimal numbers, as in 0/3000148")]
pub struct NotAnLsn(String);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl FromStr for Lsn {
    type Err = NotAnLsn;

    fn from_str(text: &str) -> Result<Self, NotAnLsn> {
        let half = |part: &str| {
            let sound = (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
            sound.then(|| u64::from_str_radix(part, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Self(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| NotAnLsn(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_position_survives_being_written_down(raw in any::<u64>()) {
            prop_assert_eq!(Lsn(raw).to_string().parse::<Lsn>(), Ok(Lsn(raw)));
        }
    }

    #[test]
    fn the_more_advanced_member_is_found_where_text_would_choose_the_other() {
        let behind: Lsn = "0/9000000".parse().unwrap();
        let ahead: Lsn = "0/10000000".parse().unwrap();
        assert!(ahead > behind);
        assert!("1/0".parse::<Lsn>().unwrap() > "0/FFFFFFFF".parse().unwrap());
    }

    #[test]
    fn what_is_no_position_is_never_taken_for_one() {
        for text in [
            "",
            "/",
            "0",
            "0/",
            "/0",
            "0/+1",
            "0/ 1",
            "0/123456789",
            "g/0",
            "0/0/0",
            "-1/0",
        ] {
            assert!(text.parse::<Lsn>().is_err(), "{text:?}");
        }
    }
}
