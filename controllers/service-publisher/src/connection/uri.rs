//! URIs, and the lines of a password file.

use std::fmt::Write;

/// A client gives up a connection attempt after so many seconds.
pub const CONNECT_TIMEOUT: &str = "5";

/// What a URI says besides user, host and database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameters {
    /// For libpq and what is built on it. After a silent loss of a node nothing else ends an open connection: without
    /// keepalives and `tcp_user_timeout` a client hangs for a quarter of an hour.
    Libpq,
    /// The same over several hosts: the one that takes writes.
    LibpqReadWrite,
    /// What every driver understands. Drivers that are not built on libpq (pgx, lib/pq, asyncpg) hand a parameter
    /// they do not know to the server, which then refuses the connection.
    Portable,
}

impl Parameters {
    /// By name.
    pub fn list(self) -> &'static [(&'static str, &'static str)] {
        const ALL: &[(&str, &str)] = &[
            ("sslmode", "verify-full"),
            ("connect_timeout", CONNECT_TIMEOUT),
            ("keepalives", "1"),
            ("keepalives_idle", "5"),
            ("keepalives_interval", "2"),
            ("keepalives_count", "3"),
            ("tcp_user_timeout", "10000"),
            ("target_session_attrs", "read-write"),
        ];
        match self {
            Self::Libpq => &ALL[..7],
            Self::LibpqReadWrite => ALL,
            Self::Portable => &ALL[..2],
        }
    }
}

/// `postgresql://user:password@host:port,…/database?…`; `hosts` carry their ports.
pub fn libpq(user: Option<(&str, &str)>, hosts: &[String], database: &str, parameters: Parameters) -> String {
    let user = user
        .map(|(name, password)| format!("{}:{}@", encoded(name), encoded(password)))
        .unwrap_or_default();
    let query: Vec<_> = parameters
        .list()
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    format!(
        "postgresql://{user}{}/{}?{}",
        hosts.join(","),
        encoded(database),
        query.join("&")
    )
}

/// `jdbc:postgresql://host:port/database?…`, for the driver of the PostgreSQL project.
pub fn jdbc(username: &str, password: &str, host: &str, database: &str) -> String {
    format!(
        "jdbc:postgresql://{host}/{}?user={}&password={}&sslmode=verify-full&connectTimeout={CONNECT_TIMEOUT}&tcpKeepAlive=true",
        encoded(database),
        encoded(username),
        encoded(password),
    )
}

/// A line of a password file, with its end.
pub fn pgpass(host: &str, port: &str, database: &str, username: &str, password: &str) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
    format!(
        "{host}:{port}:{}:{}:{}\n",
        escaped(database),
        escaped(username),
        escaped(password)
    )
}

/// `text` with every byte but letters, digits and `-._~` as `%XX`: the same in every part of a URI.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                let _ = write!(out, "%{byte:02X}");
            }
            out
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    proptest! {
        #[test]
        fn every_password_comes_back_out_of_the_uri(password in "[^\0]{0,64}", name in "[a-z_][a-z0-9_]{0,62}") {
            let uri = libpq(Some((&name, &password)), &["h:5432".into()], "app", Parameters::Libpq);
            let authority = uri.strip_prefix("postgresql://").unwrap().split('/').next().unwrap();
            let (user, host) = authority.rsplit_once('@').unwrap();
            prop_assert_eq!(host, "h:5432");
            let (found_name, found_password) = user.split_once(':').unwrap();
            prop_assert_eq!(decoded(found_name), name.clone());
            prop_assert_eq!(decoded(found_password), password.clone());

            let jdbc = jdbc(&name, &password, "h:5432", "app");
            let query = jdbc.split_once('?').unwrap().1;
            let pairs: Vec<_> = query.split('&').map(|p| p.split_once('=').unwrap()).collect();
            prop_assert_eq!(pairs.len(), 5);
            prop_assert_eq!(decoded(pairs[1].1), password);
        }

        #[test]
        fn every_password_of_one_line_comes_back_out_of_the_password_file(password in "[^\0\r\n]{0,64}") {
            let line = pgpass("h", "5432", "app", "app", &password);
            let mut fields = vec![String::new()];
            let mut characters = line.strip_suffix('\n').unwrap().chars();
            while let Some(c) = characters.next() {
                match c {
                    '\\' => fields.last_mut().unwrap().push(characters.next().unwrap()),
                    ':' => fields.push(String::new()),
                    c => fields.last_mut().unwrap().push(c),
                }
            }
            prop_assert_eq!(fields, ["h", "5432", "app", "app", password.as_str()]);
        }
    }

    #[test]
    fn drivers_that_are_not_libpq_get_no_parameter_they_would_hand_to_the_server() {
        let uri = libpq(None, &["h:5432".into()], "app", Parameters::Portable);
        assert_eq!(
            uri,
            "postgresql://h:5432/app?sslmode=verify-full&connect_timeout=5"
        );
    }
}
