//! The versions that PostgreSQL's programs and files name.

use std::str::FromStr;

/// A version of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 15, 16, …
    pub major: u32,
    /// The release within the major; 0 for a development or beta version.
    pub minor: u32,
}

/// The text names no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no version of PostgreSQL; expected the output of `postgres --version`")]
pub struct NotAVersion(String);

impl FromStr for Version {
    type Err = NotAVersion;

    /// Reads the output of `postgres --version`.
    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let wrong = || NotAVersion(text.chars().take(80).collect());
        let number = text
            .split("(PostgreSQL)")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or_else(wrong)?;
        let major = number
            .chars()
            .take_while(char::is_ascii_digit)
            .collect::<String>();
        let minor = number[major.len()..].strip_prefix('.').unwrap_or_default();
        let minor = minor.chars().take_while(char::is_ascii_digit).collect::<String>();
        Ok(Self {
            major: major.parse().map_err(|_| wrong())?,
            minor: minor.parse().unwrap_or(0),
        })
    }
}

/// The major in the content of a `PG_VERSION` file.
pub fn of_data_directory(content: &str) -> Option<u32> {
    content
        .trim()
        .parse()
        .ok()
        .filter(|major| (10..1000).contains(major))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n", 15, 14)]
    #[case("postgres (PostgreSQL) 17.0", 17, 0)]
    #[case("postgres (PostgreSQL) 18beta2 (Debian 18~beta2-1.pgdg13+1)", 18, 0)]
    fn every_packaging_of_the_server_is_recognised(
        #[case] text: &str,
        #[case] major: u32,
        #[case] minor: u32,
    ) {
        assert_eq!(text.parse(), Ok(Version { major, minor }));
    }

    #[test]
    fn other_programs_are_not_taken_for_a_server() {
        for text in [
            "",
            "postgres",
            "psql 15",
            "postgres (PostgreSQL)",
            "postgres (PostgreSQL) x",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
        assert_eq!(of_data_directory("15\n"), Some(15));
        assert_eq!(of_data_directory("9.6\n"), None);
    }
}
