//! [`Parameters`]: what a request specifies beside its path.

use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use hyper::{Request, StatusCode};
use tokio::time::timeout;

/// The maximum length of a form, in bytes.
const LONGEST_FORM: usize = 16 * 1024;
/// The time in which a client must send its form.
const TIME_TO_SEND: Duration = Duration::from_secs(5);

/// The parameters of the query, and after them those of the form.
pub struct Parameters {
    pairs: Vec<(String, String)>,
    bearer: Option<String>,
}

impl Parameters {
    /// Reads the rest of a request.
    ///
    /// # Errors
    /// Returns the status for a body that is too long, that does not arrive, or that is malformed.
    pub async fn read(request: Request<Incoming>) -> Result<Parameters, StatusCode> {
        let (head, body) = request.into_parts();
        // The body must be read in any case. Otherwise the connection cannot be used again.
        let body = timeout(TIME_TO_SEND, Limited::new(body, LONGEST_FORM).collect()).await;
        let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => StatusCode::PAYLOAD_TOO_LARGE,
            false => StatusCode::BAD_REQUEST,
        });
        let body = body?.to_bytes();
        let is_form = text_of(&head.headers, CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded"));
        let form = if is_form { body } else { Bytes::new() };
        let query = head.uri.query().unwrap_or_default().as_bytes();
        let pairs = [query, &form].into_iter().flat_map(form_urlencoded::parse);
        Ok(Parameters {
            pairs: pairs.map(|(name, value)| (name.into(), value.into())).collect(),
            bearer: text_of(&head.headers, AUTHORIZATION.as_str()).and_then(token_of),
        })
    }

    /// The value of a parameter, or an empty string.
    pub fn get(&self, name: &str) -> &str {
        let mut values = self.pairs.iter().filter(|(other, value)| other == name && !value.is_empty());
        values.next().map_or("", |(_, value)| value)
    }

    /// The token of the client, or an empty string. A header is better than a parameter, because URLs are logged.
    pub fn token(&self) -> &str {
        self.bearer.as_deref().unwrap_or_else(|| self.get("token"))
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The token of a header `Authorization: Bearer TOKEN`.
fn token_of(authorization: &str) -> Option<String> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().into())
}
