//! [`Service`]: the response to each request.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use snowflake_id_client::{Client, Error, Numbers, Segment};
use tokio::time::timeout;

use crate::clients::Clients;
use crate::metrics::Metrics;
use crate::paths::{Path, Refusal};
use crate::request::Parameters;

/// The maximum count of numbers in a response, which is also that of Tinyid's servers. The last numbers of a
/// client that counts by itself are lost when it ends.
const MOST_NUMBERS: u64 = 100_000;
/// The time in which a client gets its numbers. The clients of Tinyid wait for 5 s.
const TIME_FOR_NUMBERS: Duration = Duration::from_secs(4);
/// The minimum time between two lines of the log.
const PAUSE_OF_LOG: Duration = Duration::from_secs(1);
/// A client of Tinyid stores the increment in an `int`.
const HIGHEST_INCREMENT: i64 = i32::MAX as i64;

pub struct Service {
    client: Client,
    gives_ids: bool,
    clients: Clients,
    /// Only the names of the file, because the client keeps each name that it was asked for.
    segments: BTreeMap<String, Segment>,
    metrics: Metrics,
    last_logged: Mutex<Option<Instant>>,
}

impl Service {
    pub fn new(client: Client, gives_ids: bool, clients: Clients) -> Service {
        let segments =
            clients.names().into_iter().map(|name| (name.to_owned(), client.segment(name))).collect();
        Service {
            client,
            gives_ids,
            clients,
            segments,
            metrics: Metrics::default(),
            last_logged: Mutex::new(None),
        }
    }

    pub async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::POST {
            let mut response = response(StatusCode::METHOD_NOT_ALLOWED, "text/plain", String::new());
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, POST"));
            return response;
        }
        if request.uri().path() == "/metrics" {
            let has_lease = self.gives_ids.then(|| self.client.identity().is_some());
            return response(StatusCode::OK, "text/plain; version=0.0.4", self.metrics.text(has_lease));
        }
        let path = Path::of(request.uri().path()).filter(|(path, _)| self.gives_ids || *path != Path::Id);
        let Some((path, name)) = path else {
            return response(StatusCode::NOT_FOUND, "text/plain", "no such path\n".into());
        };
        let (status, text) = match Parameters::read(request).await {
            Ok(parameters) => match self.numbers(path, name, &parameters).await {
                Ok(taken) => (StatusCode::OK, path.response(&taken)),
                Err(refusal) => path.refusal(refusal),
            },
            Err(status) => (status, String::new()),
        };
        self.metrics.count_request(path, status);
        response(status, path.media_type(), text)
    }

    /// Takes the numbers for a request.
    async fn numbers(
        &self,
        path: Path,
        name: Option<String>,
        parameters: &Parameters,
    ) -> Result<Vec<Numbers>, Refusal> {
        let name = name.as_deref().unwrap_or_else(|| parameters.get("bizType"));
        if !self.clients.may_use(parameters.token(), name) {
            return Err(Refusal::Token);
        }
        let count = path.count(parameters, MOST_NUMBERS).ok_or(Refusal::Count)?;
        let taken = timeout(TIME_FOR_NUMBERS, async {
            match path {
                Path::Id => Ok(vec![self.id().await?]),
                Path::Range(_) => Ok(vec![self.some(name, count).await?]),
                Path::Number | Path::Numbers(_) => self.exactly(name, count).await,
            }
        });
        let late = || Error::NoNumbers { name: name.into(), why: format!("not within {TIME_FOR_NUMBERS:?}") };
        match taken.await.unwrap_or_else(|_| Err(late())) {
            Ok(taken) => {
                let kind = if path == Path::Id { "id" } else { "segment" };
                self.metrics.count_numbers(kind, name, taken.iter().map(|numbers| numbers.count).sum());
                Ok(taken)
            }
            Err(error) => {
                self.log(&error);
                Err(Refusal::NoNumbers)
            }
        }
    }

    async fn id(&self) -> Result<Numbers, Error> {
        let first = self.client.next_id_or_wait().await?;
        Ok(Numbers { first, increment: 1, count: 1 })
    }

    /// Takes this many numbers. If an error occurs, the numbers that were taken before are lost.
    async fn exactly(&self, name: &str, mut count: u64) -> Result<Vec<Numbers>, Error> {
        let mut taken = Vec::new();
        while count > 0 {
            let numbers = self.some(name, count).await?;
            count -= numbers.count;
            taken.push(numbers);
        }
        Ok(taken)
    }

    /// Takes up to `most` numbers of one range, at least one.
    async fn some(&self, name: &str, most: u64) -> Result<Numbers, Error> {
        // The file names all segments.
        let segment = self.segments.get(name).ok_or(Error::Closed)?;
        let numbers = segment.next_numbers(NonZeroU64::new(most).unwrap_or(NonZeroU64::MIN)).await?;
        if numbers.increment > HIGHEST_INCREMENT {
            let why = format!("the increment is greater than {HIGHEST_INCREMENT}");
            return Err(Error::NoNumbers { name: name.into(), why });
        }
        Ok(numbers)
    }

    /// Logs why there are no numbers. Clients learn only that there are none.
    fn log(&self, error: &Error) {
        let Ok(mut last) = self.last_logged.lock() else { return };
        if last.is_none_or(|last| last.elapsed() >= PAUSE_OF_LOG) {
            *last = Some(Instant::now());
            eprintln!("{error}");
        }
    }
}

/// A response that no cache may store.
fn response(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
