//! Finds the statement of an SQL script that would end the transaction the script runs in.
//!
//! It splits at top-level semicolons, outside of quotes, comments, dollar quotes and `BEGIN ATOMIC` bodies, and looks
//! at the first words. What it misses is noticed after the script ran, by the transaction's id; what it finds is
//! refused before anything was done.

/// A statement that would end the transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Its line, from 1.
    pub line: usize,
    /// Its first word.
    pub word: String,
}

/// The first one, if there is any.
pub fn find(script: &str) -> Option<Ends> {
    let mut scan = Scan {
        rest: script,
        line: 1,
    };
    let mut words: Vec<(String, usize)> = Vec::new();
    let mut in_body = false;
    loop {
        match scan.next() {
            Token::Word(word, line) => {
                if word == "ATOMIC" && words.last().is_some_and(|(w, _)| w == "BEGIN") {
                    in_body = true;
                }
                words.push((word, line));
            }
            Token::Other => words.push((String::new(), scan.line)),
            end @ (Token::Semicolon | Token::End) => {
                let first = words.first().map(|(w, l)| (w.as_str(), *l));
                match first {
                    Some(("END", _)) if in_body => in_body = false,
                    Some((word, line))
                        if !in_body && ends(word, words.get(1).map(|(w, _)| w.as_str()), &words) =>
                    {
                        return Some(Ends {
                            line,
                            word: word.to_owned(),
                        });
                    }
                    _ => {}
                }
                words.clear();
                if end == Token::End {
                    return None;
                }
            }
        }
    }
}

fn ends(first: &str, second: Option<&str>, all: &[(String, usize)]) -> bool {
    match first {
        "COMMIT" | "END" | "ABORT" => true,
        "ROLLBACK" => !all.iter().any(|(w, _)| w == "TO"),
        "PREPARE" => second == Some("TRANSACTION"),
        _ => false,
    }
}

#[derive(PartialEq, Eq)]
enum Token {
    Word(String, usize),
    Other,
    Semicolon,
    End,
}

struct Scan<'a> {
    rest: &'a str,
    line: usize,
}

impl Scan<'_> {
    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.bytes().filter(|b| *b == b'\n').count();
        self.rest = rest;
    }

    fn past(&mut self, from: usize, end: &str) {
        let at = self.rest[from..]
            .find(end)
            .map_or(self.rest.len(), |i| from + i + end.len());
        self.skip(at);
    }

    fn next(&mut self) -> Token {
        loop {
            let Some(c) = self.rest.chars().next() else {
                return Token::End;
            };
            if c.is_whitespace() {
                self.skip(c.len_utf8());
            } else if self.rest.starts_with("--") {
                self.past(2, "\n");
            } else if self.rest.starts_with("/*") {
                self.comment();
            } else if c == ';' {
                self.skip(1);
                return Token::Semicolon;
            } else if c == '\'' {
                self.past(1, "'");
                return Token::Other;
            } else if c == '"' {
                self.past(1, "\"");
                return Token::Other;
            } else if c == '$' && self.dollar_quote() {
                return Token::Other;
            } else if c.is_alphabetic() || c == '_' {
                return self.word();
            } else {
                self.skip(c.len_utf8());
                return Token::Other;
            }
        }
    }

    fn word(&mut self) -> Token {
        let line = self.line;
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let length = self.rest.find(|c| !part(c)).unwrap_or(self.rest.len());
        let word = self.rest[..length].to_ascii_uppercase();
        // E'...' has backslash escapes.
        if word == "E" && self.rest[length..].starts_with('\'') {
            self.skip(length + 1);
            let mut escaped = false;
            let end = self.rest.char_indices().find(|(_, c)| {
                let here = *c == '\'' && !escaped;
                escaped = *c == '\\' && !escaped;
                here
            });
            self.skip(end.map_or(self.rest.len(), |(i, _)| i + 1));
            return Token::Other;
        }
        self.skip(length);
        Token::Word(word, line)
    }

    /// Comments nest.
    fn comment(&mut self) {
        let mut depth = 0_u32;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.skip(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
            } else if let Some(c) = self.rest.chars().next() {
                self.skip(c.len_utf8());
            } else {
                return;
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn dollar_quote(&mut self) -> bool {
        let Some(length) = self.rest[1..].find('$') else {
            return false;
        };
        let tag = &self.rest[1..=length];
        let word = tag.chars().all(|c| c.is_alphanumeric() || c == '_')
            && !tag.starts_with(|c: char| c.is_ascii_digit());
        if !word {
            return false;
        }
        let quote = self.rest[..length + 2].to_owned();
        self.past(quote.len(), &quote);
        true
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("CREATE TABLE a(); COMMIT; CREATE TABLE b();", Some((1, "COMMIT")))]
    #[case("BEGIN;\nCREATE TABLE a();\nEND", Some((3, "END")))]
    #[case("rollback", Some((1, "ROLLBACK")))]
    #[case("SELECT 1;\n/* x */ prepare transaction 'a';", Some((2, "PREPARE")))]
    #[case("SAVEPOINT a; ROLLBACK TO a; ROLLBACK WORK TO SAVEPOINT a;", None)]
    #[case("SELECT 'it''s; COMMIT;'; SELECT E'\\'; COMMIT;'; SELECT \"; COMMIT;\"", None)]
    #[case("-- ; COMMIT;\n/* /* nested */ ; COMMIT; */ SELECT 1", None)]
    #[case(
        "CREATE FUNCTION f() RETURNS int LANGUAGE plpgsql AS $x$ BEGIN; COMMIT; END; $x$;",
        None
    )]
    #[case("DO $$ BEGIN COMMIT; END $$;", None)]
    #[case("CREATE FUNCTION g() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 1 END; END; COMMIT", Some((1, "COMMIT")))]
    #[case("PREPARE p AS SELECT $1; EXECUTE p(1);", None)]
    #[case("INSERT INTO commit VALUES (1); UPDATE t SET a = $1$;COMMIT;$1$", Some((1, "COMMIT")))]
    #[case("", None)]
    fn a_script_keeps_its_transaction(#[case] script: &str, #[case] expected: Option<(usize, &str)>) {
        assert_eq!(
            find(script),
            expected.map(|(line, word)| Ends {
                line,
                word: word.into()
            })
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(script in "\\PC*") {
            let _ = find(&script);
        }

        #[test]
        fn quotes_and_comments_in_any_order(script in proptest::collection::vec(
            proptest::sample::select(vec!["'", "\"", "$$", "$a$", "/*", "*/", "--", "\n", ";", "COMMIT", "E'", "\\", " ", "é"]), 0..40)) {
            let _ = find(&script.concat());
        }
    }
}
