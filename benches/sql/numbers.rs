//! The calls that are compared with one another.

/// A call that returns a number.
#[derive(Clone, Copy)]
pub struct Number {
    /// The name in the tables.
    pub name: &'static str,
    pub call: &'static str,
    pub function: &'static str,
    pub argument: Option<&'static str>,
}

pub const SNOWFLAKE: Number = Number {
    name: "`snowflake_nextval()`",
    call: "snowflake_nextval()",
    function: "snowflake_nextval()",
    argument: None,
};

pub const SEGMENT: Number = Number {
    name: "`snowflake_segment_nextval()`",
    call: "snowflake_segment_nextval('bench')",
    function: "snowflake_segment_nextval(text)",
    argument: Some("bench"),
};

pub const SEQUENCE: Number = Number {
    name: "`nextval()`",
    call: "nextval('plain')",
    function: "nextval(regclass)",
    argument: Some("plain"),
};

pub const CACHED_SEQUENCE: Number = Number {
    name: "`nextval()`, `CACHE 1000`",
    call: "nextval('cached')",
    function: "nextval(regclass)",
    argument: Some("cached"),
};
