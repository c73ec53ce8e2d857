//! [`Reply`]: one row of a registry's answer.
//!
//! The columns are read by name. A newer registry can therefore add columns, and an older registry can lack some of
//! them. An answer may come from a server that is not a registry, so its size is limited, and the other modules check
//! every value.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

/// The maximum length of a row, in bytes. Names, details and tokens are much shorter.
const LONGEST_ROW: usize = 8192;
/// The reason for refusing a row that is not an answer of a registry.
pub const NOT_VALID: &str = "the registry's reply is not valid: the registry may have a newer version";

/// The columns of a row that are not NULL, in text form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply(BTreeMap<String, String>);

impl Reply {
    /// Reads a row that PostgreSQL's function `to_json` has converted. Columns whose JSON values are not strings,
    /// numbers or booleans are ignored.
    ///
    /// # Errors
    /// Returns [`NOT_VALID`] if the row is longer than 8192 bytes, or not a JSON object.
    ///
    /// ```
    /// # use snowflake_id_core::reply::Reply;
    /// let reply = Reply::read(r#"{"outcome": "granted", "worker_id": 7, "detail": null, "later": [1]}"#).unwrap();
    /// assert_eq!(reply.text("outcome"), Some("granted"));
    /// assert_eq!(reply.number("worker_id"), Some(7));
    /// assert_eq!((reply.text("detail"), reply.text("later")), (None, None));
    /// ```
    pub fn read(json: &str) -> Result<Reply, String> {
        if json.len() > LONGEST_ROW {
            return Err(NOT_VALID.into());
        }
        let columns: Map<String, Value> = serde_json::from_str(json).map_err(|_| NOT_VALID)?;
        Ok(Reply::of(columns.into_iter().map(|(name, value)| {
            let text = match value {
                Value::String(text) => Some(text),
                Value::Number(number) => Some(number.to_string()),
                Value::Bool(is_true) => Some(is_true.to_string()),
                Value::Null | Value::Array(_) | Value::Object(_) => None,
            };
            (name, text)
        })))
    }

    /// Creates a row from the names of its columns and their values. NULL is `None`.
    pub fn of<Name: Into<String>>(columns: impl IntoIterator<Item = (Name, Option<String>)>) -> Reply {
        Reply(columns.into_iter().filter_map(|(name, text)| Some((name.into(), text?))).collect())
    }

    /// Returns the value of a column, or `None` if the value is NULL or the column is missing.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column).map(String::as_str)
    }

    /// Returns the value of a column, or `None` if the value is not an integer.
    pub fn number(&self, column: &str) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// Returns the lowest and the highest protocol of the registry, or `None` if the row does not contain them.
    pub fn protocols(&self) -> Option<RangeInclusive<u32>> {
        let number = |column| u32::try_from(self.number(column)?).ok();
        Some(number("lowest_protocol")?..=number("highest_protocol")?)
    }

    /// Returns the token of the row, or `None` if the token has more than `longest` bytes or contains characters other
    /// than visible ASCII characters. Such characters would have to be escaped wherever the token is stored.
    pub fn token(&self, longest: usize) -> Option<String> {
        let token = self.text("token")?;
        let is_one = token.len() <= longest && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_one.then(|| token.to_owned())
    }
}
