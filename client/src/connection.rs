//! Connections to the registry. Every wait and every answer has a limit. A result with a warning is an
//! error if the registry's commit may not have reached its standby.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use snowflake_id_core::lease_call::Call;
use snowflake_id_core::message::without_controls;
use snowflake_id_core::protocol::may_be_about_commit;
use snowflake_id_core::reply::Reply;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config};

use crate::stream::{Budget, Stream};

/// Time limit for one host, unless the connection string has a `connect_timeout`.
const TIME_FOR_A_HOST: Duration = Duration::from_secs(5);
/// The maximum time to wait for the registry's answer, as for servers.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// The default port of PostgreSQL.
const PORT: u16 = 5432;
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

/// Returns a function that connects according to `config`.
pub fn connector<T>(mut config: Config, tls: T) -> Connector
where
    T: MakeTlsConnect<Stream> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Stream>>::Future: Send,
{
    if config.get_application_name().is_none() {
        config.application_name("snowflake-id-client");
    }
    let config = Arc::new(config);
    Arc::new(move || Box::pin(connect(config.clone(), tls.clone())))
}

/// Tries the hosts in their order.
async fn connect<T>(config: Arc<Config>, mut tls: T) -> Result<Connection, Problem>
where
    T: MakeTlsConnect<Stream> + Send,
    T::Stream: Send + 'static,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Stream>>::Future: Send,
{
    let time = config.get_connect_timeout().copied().unwrap_or(TIME_FOR_A_HOST);
    let mut problems = vec![];
    for at in 0..config.get_hosts().len() {
        let connected = timeout(time, connect_to(&config, at, &mut tls)).await;
        match connected.unwrap_or_else(|_| Err(format!("no connection within {time:?}"))) {
            Ok(connection) => return Ok(connection),
            Err(problem) => problems.push(problem),
        }
    }
    match problems.is_empty() {
        true => Err("the connection string names no host".into()),
        false => Err(in_short(problems.join("; "))),
    }
}

/// Connects to one host.
async fn connect_to<T: MakeTlsConnect<Stream>>(
    config: &Config,
    at: usize,
    tls: &mut T,
) -> Result<Connection, Problem>
where
    T::Stream: Send + 'static,
{
    let ports = config.get_ports();
    let port = ports.get(at).or(ports.first()).copied().unwrap_or(PORT);
    let budget = Budget::new();
    let (stream, name) = match (&config.get_hosts()[at], config.get_hostaddrs().get(at)) {
        (Host::Tcp(name), Some(&address)) => {
            let address = SocketAddr::new(address, port);
            (tcp(&[address], &budget).await, name.as_str())
        }
        (Host::Tcp(name), None) => {
            let addresses = lookup_host((name.as_str(), port)).await;
            let addresses: Vec<_> = addresses.map_err(|error| format!("{name}: {error}"))?.collect();
            (tcp(&addresses, &budget).await, name.as_str())
        }
        (Host::Unix(directory), _) => {
            let socket = UnixStream::connect(directory.join(format!(".s.PGSQL.{port}"))).await;
            (socket.map(|socket| Stream::new(socket, budget.clone())), "")
        }
    };
    let stream = stream.map_err(|error| error.to_string())?;
    let tls = tls.make_tls_connect(name).map_err(|error| error.into().to_string())?;
    let (client, mut connection) = config.connect_raw(stream, tls).await.map_err(|error| text_of(&error))?;
    read_greeting(&mut connection).await?;
    let has_warned = Arc::new(AtomicBool::new(false));
    let failure = Arc::new(OnceLock::new());
    let driver = tokio::spawn(drive(connection, has_warned.clone(), failure.clone()));
    let connection = Connection { client, has_warned, failure, budget, driver };
    // The configuration does not tell whether the string asks for any session.
    if config.get_hosts().len() > 1 || config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
        let query = "SELECT pg_catalog.current_setting('transaction_read_only')";
        let rows = connection.ask(query, &[]).await?;
        if rows.first().and_then(|row| row.first()?.as_deref()) != Some("off") {
            return Err("the server does not accept writes".into());
        }
    }
    Ok(connection)
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

/// Connects to the first address that accepts the connection.
async fn tcp(addresses: &[SocketAddr], budget: &Budget) -> std::io::Result<Stream> {
    let socket = TcpStream::connect(addresses).await?;
    socket.set_nodelay(true)?;
    Ok(Stream::new(socket, budget.clone()))
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
