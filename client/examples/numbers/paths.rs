//! [`Path`]: what a client asks for. The paths and the forms of the responses are those of the servers of Leaf
//! (`LeafController.java`) and Tinyid (`IdContronller.java`).

use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::json;
use snowflake_id_client::Numbers;

use crate::request::Parameters;

/// The paths without the name at the end of Leaf's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// Leaf's number of a segment.
    Number,
    /// Leaf's ID.
    Id,
    /// Tinyid's numbers, as JSON and in short.
    Numbers(Form),
    /// A range of numbers for a client of Tinyid, which counts by itself.
    Range(Form),
}

/// The form of a response of Tinyid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    Json,
    Simple,
}

/// Why a client gets no numbers.
#[derive(Clone, Copy)]
pub enum Refusal {
    /// The client may not use the name.
    Token,
    /// The count is not a positive number.
    Count,
    /// There are no numbers now.
    NoNumbers,
}

const NUMBER: &str = "/api/segment/get/";
const ID: &str = "/api/snowflake/get/";
const TINYID: [(&str, Path); 4] = [
    ("/tinyid/id/nextId", Path::Numbers(Form::Json)),
    ("/tinyid/id/nextIdSimple", Path::Numbers(Form::Simple)),
    ("/tinyid/id/nextSegmentId", Path::Range(Form::Json)),
    ("/tinyid/id/nextSegmentIdSimple", Path::Range(Form::Simple)),
];

impl Path {
    /// The path of a request, and the name at its end.
    pub fn of(path: &str) -> Option<(Path, Option<String>)> {
        for (start, leaf) in [(NUMBER, Path::Number), (ID, Path::Id)] {
            if let Some(name) = path.strip_prefix(start) {
                return Some((leaf, Some(percent_decode_str(name).decode_utf8().ok()?.into())));
            }
        }
        TINYID.iter().find(|(text, _)| *text == path).map(|&(_, tinyid)| (tinyid, None))
    }

    /// The text of the path.
    pub fn text(self) -> &'static str {
        match self {
            Path::Number => NUMBER.trim_end_matches('/'),
            Path::Id => ID.trim_end_matches('/'),
            tinyid => TINYID.iter().find(|(_, path)| *path == tinyid).map_or("", |(text, _)| text),
        }
    }

    /// How many numbers a client wants.
    pub fn count(self, parameters: &Parameters, most: u64) -> Option<u64> {
        match (self, parameters.get("batchSize")) {
            (Path::Range(_), _) => Some(most),
            (Path::Number | Path::Id, _) | (Path::Numbers(_), "") => Some(1),
            (Path::Numbers(_), text) => text.parse().ok().filter(|&n| n > 0).map(|n: u64| n.min(most)),
        }
    }

    /// The response with these numbers, which are in increasing order. A client of Tinyid counts in the only
    /// element of `taken`.
    pub fn response(self, taken: &[Numbers]) -> String {
        let all = || taken.iter().flat_map(|&numbers| numbers);
        match self {
            Path::Number | Path::Id | Path::Numbers(Form::Simple) => {
                all().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
            }
            Path::Numbers(Form::Json) => success(json!(all().collect::<Vec<_>>())),
            Path::Range(form) => range(taken[0], form),
        }
    }

    /// The status and the response to a client that gets no numbers. As from Tinyid, the short form is empty.
    pub fn refusal(self, refusal: Refusal) -> (StatusCode, String) {
        let (status, code, message) = match refusal {
            Refusal::Token => (StatusCode::FORBIDDEN, 5, "token is error"),
            Refusal::Count => (StatusCode::BAD_REQUEST, 6, "batchSize is not a positive number"),
            Refusal::NoNumbers => (StatusCode::SERVICE_UNAVAILABLE, 6, "no numbers are available"),
        };
        let text = match self {
            Path::Numbers(Form::Json) | Path::Range(Form::Json) => {
                json!({ "data": null, "code": code, "message": message }).to_string()
            }
            Path::Numbers(Form::Simple) | Path::Range(Form::Simple) => String::new(),
            // The words are Tinyid's.
            Path::Number | Path::Id if code == 5 => "the name is not granted to this client\n".into(),
            Path::Number | Path::Id => format!("{message}\n"),
        };
        (status, text)
    }

    /// The media type of the response.
    pub fn media_type(self) -> &'static str {
        match self {
            Path::Numbers(Form::Json) | Path::Range(Form::Json) => "application/json",
            _ => "text/plain; charset=utf-8",
        }
    }
}

fn success(data: serde_json::Value) -> String {
    json!({ "data": data, "code": 200, "message": "" }).to_string()
}

/// A client of Tinyid adds `delta` before it returns a number, and fetches the next range from `loadingId` on. A
/// range that does not begin with `remainder` modulo `delta` would make it skip numbers.
fn range(Numbers { first, increment: delta, count }: Numbers, form: Form) -> String {
    let last = first + (count as i64 - 1) * delta;
    let current = first - delta;
    let loading = current + (last - current) / 5;
    let remainder = first.rem_euclid(delta);
    match form {
        Form::Simple => format!("{current},{loading},{last},{delta},{remainder}"),
        Form::Json => success(json!({
            "maxId": last, "loadingId": loading, "currentId": current, "delta": delta, "remainder": remainder
        })),
    }
}
