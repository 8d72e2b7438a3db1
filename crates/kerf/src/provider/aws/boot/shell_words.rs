//! Splits the text of a shell script into commands and words, as far as scripts in user data need
//! it: quotes, backslashes, comments, continued lines and variables.

use std::collections::BTreeMap;

/// Characters that end a command.
const SEPARATORS: [char; 4] = ['\n', ';', '&', '|'];

/// Returns the commands of a script, each as its words. An assignment sets a variable for later
/// commands and is no command itself. Fails if a quote is not closed.
pub(super) fn commands(script: &str) -> Result<Vec<Vec<String>>, String> {
    let mut reader = WordReader { chars: script.chars().peekable(), variables: BTreeMap::new() };
    let mut commands = Vec::new();
    while let Some(words) = reader.command()? {
        let assignments = words.iter().take_while(|word| assignment(word).is_some()).count();
        if assignments == words.len() {
            for (name, value) in words.iter().filter_map(|word| assignment(word)) {
                reader.variables.insert(name.to_owned(), value.to_owned());
            }
        } else {
            commands.push(words.into_iter().skip(assignments).collect());
        }
    }
    Ok(commands)
}

/// Returns the words of one line, for example of the flags of the kubelet.
pub(super) fn words(line: &str) -> Result<Vec<String>, String> {
    let mut reader = WordReader { chars: line.chars().peekable(), variables: BTreeMap::new() };
    let mut words = Vec::new();
    while let Some(command) = reader.command()? {
        words.extend(command);
    }
    Ok(words)
}

/// Returns name and value of a word like `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    is_name.then_some((name, value))
}

struct WordReader<'a> {
    chars: std::iter::Peekable<std::str::Chars<'a>>,
    variables: BTreeMap<String, String>,
}

impl WordReader<'_> {
    /// Returns the words up to the end of a command; possibly none. Returns `None` at the end.
    fn command(&mut self) -> Result<Option<Vec<String>>, String> {
        self.chars.peek().copied().map_or(Ok(None), |_| self.words_of_command().map(Some))
    }

    fn words_of_command(&mut self) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        while let Some(char) = self.chars.next() {
            match char {
                char if SEPARATORS.contains(&char) => break,
                ' ' | '\t' | '\r' => words.extend(word.take()),
                '#' if word.is_none() => while self.chars.next_if(|char| *char != '\n').is_some() {},
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(escaped) => word.get_or_insert_default().push(escaped),
                },
                '\'' => self.read_single_quoted(word.get_or_insert_default())?,
                '"' => self.read_double_quoted(word.get_or_insert_default())?,
                '$' => {
                    let value = self.variable();
                    word.get_or_insert_default().push_str(&value);
                }
                other => word.get_or_insert_default().push(other),
            }
        }
        words.extend(word);
        Ok(words)
    }

    fn read_single_quoted(&mut self, word: &mut String) -> Result<(), String> {
        for char in self.chars.by_ref() {
            if char == '\'' {
                return Ok(());
            }
            word.push(char);
        }
        Err("a single quote is not closed".to_owned())
    }

    fn read_double_quoted(&mut self, word: &mut String) -> Result<(), String> {
        while let Some(char) = self.chars.next() {
            match char {
                '"' => return Ok(()),
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                    Some(other) => word.extend(['\\', other]),
                },
                '$' => {
                    let value = self.variable();
                    word.push_str(&value);
                }
                other => word.push(other),
            }
        }
        Err("a double quote is not closed".to_owned())
    }

    /// Returns the value of the variable after a dollar sign, or the text itself if it is none.
    fn variable(&mut self) -> String {
        let has_brace = self.chars.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || *char == '_') {
            name.push(char);
        }
        let is_closed = !has_brace || self.chars.next_if_eq(&'}').is_some();
        match self.variables.get(&name) {
            Some(value) if is_closed => value.clone(),
            // An unset variable is empty; a command in parentheses stays as it is.
            None if is_closed && !name.is_empty() => String::new(),
            Some(_) | None => format!("${}{name}", if has_brace { "{" } else { "" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_split_as_a_shell_does() {
        let script = r#"#!/bin/bash -xe
exec > >(tee /var/log/user-data.log) 2>&1
NAME=demo  # the cluster
/etc/eks/bootstrap.sh "$NAME" --b64-cluster-ca 'a b' \
--kubelet-extra-args '--node-labels="a=1,b=2" --max-pods=7'; echo "${NAME}\"" x\ y
"#;
        let commands = commands(script).unwrap_or_default();
        let call = &commands[commands.len() - 2];
        assert_eq!(call[..4], ["/etc/eks/bootstrap.sh", "demo", "--b64-cluster-ca", "a b"]);
        assert_eq!(words(&call[5]), Ok(vec!["--node-labels=a=1,b=2".to_owned(), "--max-pods=7".to_owned()]));
        assert_eq!(commands[commands.len() - 1], ["echo", "demo\"", "x y"]);
        assert_eq!(words("'a"), Err("a single quote is not closed".to_owned()));
        assert_eq!(words("\"a"), Err("a double quote is not closed".to_owned()));
        assert_eq!(words("a$b ${c $(d)"), Ok(vec!["a".into(), "${c".into(), "$(d)".into()]));
    }
}
