//! Connections to the registry. Every wait and every answer has a limit. A result with a warning is an
//! error if the registry's commit may not have reached its standby.

use std::any::TypeId;
use std::collections::HashSet;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use snowflake_id_core::hosts::Attempts;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::message::without_controls;
use snowflake_id_core::protocol::may_be_about_commit;
use snowflake_id_core::reply::Reply;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_postgres::config::{LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config};
use uuid::Uuid;

use crate::hosts::{self, Name, Place, Step, Target};
use crate::stream::{Budget, Stream};

/// The minimum time limit for one name lookup. A name server that does not answer costs 5 s, and the next one answers.
const TIME_FOR_A_LOOKUP: Duration = Duration::from_secs(10);
/// The maximum time to wait for the registry's answer, as for servers.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// The maximum length of a received text in errors, in bytes.
const LONGEST_PROBLEM: usize = 500;

/// Why the registry has not answered.
pub type Problem = String;
/// A row of texts. `None` is NULL.
pub type Row = Vec<Option<String>>;

type Connecting = Pin<Box<dyn Future<Output = Result<Connection, Problem>> + Send>>;

/// A function that connects to the first host that accepts the connection.
pub type Connector = Arc<dyn Fn() -> Connecting + Send + Sync>;

/// A connection. It is closed when the value is dropped.
pub struct Connection {
    client: tokio_postgres::Client,
    /// Whether the server has sent a warning since the last query that may be about its commit.
    has_warned: Arc<AtomicBool>,
    /// Why the connection has failed.
    failure: Arc<OnceLock<Problem>>,
    budget: Budget,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Looks a name up.
type Resolver = fn(Name) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// The way to the registry.
struct Way<T> {
    config: Config,
    /// The same for a Unix-domain socket, on which there is no TLS, as for libpq.
    local: Config,
    tls: T,
    steps: Vec<Step>,
    resolver: Resolver,
    /// The names whose last look-up took longer than an address may. They come last.
    late: Mutex<HashSet<String>>,
}

/// Returns a function that connects according to `config`, or the reason why the client refuses `config`.
pub fn connector<T>(config: Config, tls: T) -> Result<Connector, Problem>
where
    T: MakeTlsConnect<Stream> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Stream>>::Future: Send,
{
    let way = Arc::new(Way::new(config, tls, look_up)?);
    Ok(Arc::new(move || Box::pin(way.clone().connect())))
}

fn look_up(name: Name) -> Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>> {
    Box::pin(async move { Ok(lookup_host((name.name, name.port)).await?.collect()) })
}

impl<T> Way<T>
where
    T: MakeTlsConnect<Stream> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Stream>>::Future: Send,
{
    fn new(mut config: Config, tls: T, resolver: Resolver) -> Result<Way<T>, Problem> {
        let steps = hosts::check(&config, TypeId::of::<T>() != TypeId::of::<NoTls>())?;
        if config.get_application_name().is_none() {
            config.application_name("snowflake-id-client");
        }
        let mut local = config.clone();
        local.ssl_mode(SslMode::Disable);
        Ok(Way { config, local, tls, steps, resolver, late: Mutex::default() })
    }

    /// Tries the hosts until one accepts the connection.
    async fn connect(self: Arc<Self>) -> Result<Connection, Problem> {
        let time = hosts::time_for_an_address(&self.config);
        let is_random = self.config.get_load_balance_hosts() == LoadBalanceHosts::Random;
        let order = |step: &Step| {
            let is_late = matches!(step, Step::LookUp(name) if self.late().contains(&name.name));
            (is_late, is_random.then(Uuid::new_v4))
        };
        let mut attempts = Attempts::new(self.steps.clone(), time.max(TIME_FOR_A_LOOKUP), time, order);
        let mut problems = vec![];
        while let Some((step, limit)) = attempts.next_step() {
            match step {
                Step::LookUp(name) => match self.look_up(&name, limit, time).await {
                    Ok(places) => attempts.found(places),
                    Err(problem) => problems.push(format!("{}: {problem}", name.name)),
                },
                Step::Connect(place) => {
                    let is_only = problems.is_empty() && !attempts.has_more();
                    let connected = timeout(limit, self.connect_to(&place, is_only)).await;
                    match connected.unwrap_or_else(|_| Err(format!("no reply within {limit:?}"))) {
                        Ok(connection) => return Ok(connection),
                        Err(problem) => problems.push(format!("{place}: {problem}")),
                    }
                }
            }
        }
        Err(in_short(problems.join("; ")))
    }

    fn late(&self) -> MutexGuard<'_, HashSet<String>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses of a name.
    async fn look_up(&self, name: &Name, limit: Duration, time: Duration) -> Result<Vec<Place>, Problem> {
        let began = Instant::now();
        let found = timeout(limit, (self.resolver)(name.clone())).await;
        if began.elapsed() > time {
            self.late().insert(name.name.clone());
        } else {
            self.late().remove(&name.name);
        }
        let found = found.map_err(|_| format!("no reply from the name service within {limit:?}"))?;
        let found = found.map_err(|error| error.to_string())?;
        if found.is_empty() {
            return Err("the name has no address".into());
        }
        let place = |address| Place { name: name.name.clone(), target: Target::Address(address) };
        Ok(found.into_iter().map(place).collect())
    }

    /// Connects to one address or socket.
    async fn connect_to(&self, place: &Place, is_only: bool) -> Result<Connection, Problem> {
        let text = |error: io::Error| error.to_string();
        let budget = Budget::new();
        let connection = match &place.target {
            Target::Address(address) => {
                let socket = TcpStream::connect(address).await.map_err(text)?;
                socket.set_nodelay(true).map_err(text)?;
                hosts::set_up(SockRef::from(&socket), &self.config)?;
                let tls = self.tls.clone().make_tls_connect(&place.name);
                let tls = tls.map_err(|error| error.into().to_string())?;
                open(&self.config, Stream::new(socket, budget.clone()), tls, budget).await?
            }
            Target::Socket(path) => {
                let socket = UnixStream::connect(path).await.map_err(text)?;
                open(&self.local, Stream::new(socket, budget.clone()), NoTls, budget).await?
            }
        };
        // The configuration does not tell whether the string asks for any session.
        if !is_only || self.config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
            let query = "SELECT pg_catalog.current_setting('transaction_read_only')";
            let rows = connection.ask(query, &[]).await?;
            if rows.first().and_then(|row| row.first()?.as_deref()) != Some("off") {
                return Err("the server does not accept writes".into());
            }
        }
        Ok(connection)
    }
}

/// Opens a session over a stream.
async fn open<C>(config: &Config, stream: Stream, tls: C, budget: Budget) -> Result<Connection, Problem>
where
    C: TlsConnect<Stream>,
    C::Stream: Send + 'static,
{
    let (client, mut connection) = config.connect_raw(stream, tls).await.map_err(|error| text_of(&error))?;
    read_greeting(&mut connection).await?;
    let has_warned = Arc::new(AtomicBool::new(false));
    let failure = Arc::new(OnceLock::new());
    let driver = tokio::spawn(drive(connection, has_warned.clone(), failure.clone()));
    Ok(Connection { client, has_warned, failure, budget, driver })
}

/// Reads what the server has sent before it was ready for queries. A warning among it, such as that a password will expire
/// soon, is not about the answer to a query.
async fn read_greeting<S, T>(connection: &mut tokio_postgres::Connection<S, T>) -> Result<(), Problem>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    poll_fn(|context| {
        loop {
            match connection.poll_message(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(text_of(&error))),
                Poll::Ready(None) => return Poll::Ready(Err("connection closed".into())),
                Poll::Pending => return Poll::Ready(Ok(())),
            }
        }
    })
    .await
}

/// Reads the messages of a connection until it ends. A warning is noted before any later message is passed on.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    has_warned: Arc<AtomicBool>,
    failure: Arc<OnceLock<Problem>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice))
                if notice.parsed_severity() == Some(Severity::Warning)
                    && may_be_about_commit(notice.routine().unwrap_or_default()) =>
            {
                has_warned.store(true, Ordering::Release);
            }
            Ok(_) => {}
            Err(error) => {
                let _ = failure.set(text_of(&error));
                return;
            }
        }
    }
}

impl Connection {
    /// Calls a function of the registry.
    pub async fn call(&self, call: &Call) -> Result<Vec<Reply>, Problem> {
        let rows = self.ask(&call.query, &[&call.request]).await?;
        rows.iter()
            .map(|row| Reply::read(row.first().and_then(Option::as_deref).unwrap_or_default()))
            .collect()
    }

    /// Sends a query with parameters of type `text`, and returns the rows. All columns must be of type
    /// `text`. The query is complete, and its transaction has ended, when the function returns.
    ///
    /// # Errors
    /// Returns the reason why there is no trustworthy answer. The query may have been executed.
    pub async fn ask(&self, query: &str, parameters: &[&str]) -> Result<Vec<Row>, Problem> {
        self.has_warned.store(false, Ordering::Release);
        self.budget.renew();
        let parameters: Vec<_> = parameters.iter().map(|text| (text as _, Type::TEXT)).collect();
        let answered = timeout(TIME_FOR_AN_ANSWER, self.client.query_typed(query, &parameters)).await;
        let rows = answered.map_err(|_| format!("no reply within {TIME_FOR_AN_ANSWER:?}"))?;
        let failed = |error| self.failure.get().cloned().unwrap_or_else(|| text_of(&error));
        let rows = rows.map_err(failed)?;
        if self.has_warned.load(Ordering::Acquire) {
            return Err("the registry warned that its reply may not be durable".into());
        }
        let texts =
            |row: &tokio_postgres::Row| (0..row.len()).map(|at| row.try_get(at)).collect::<Result<_, _>>();
        rows.iter().map(texts).collect::<Result<_, _>>().map_err(|error| text_of(&error))
    }
}

/// The text of an error with its causes.
pub fn text_of(error: &tokio_postgres::Error) -> String {
    in_short(match error.as_db_error() {
        Some(refused) => refused.message().to_owned(),
        None => {
            let causes = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        }
    })
}

/// A received text for an error, without control characters.
pub fn in_short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_PROBLEM));
    without_controls(&text)
}

#[cfg(test)]
mod tests;
