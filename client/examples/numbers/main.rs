//! A service that gives out numbers of segments, and IDs, over HTTP, at the paths of Leaf and Tinyid:
//!
//!     REGISTRY="host=registry dbname=postgres user=number_service" \
//!         cargo run --release -p snowflake-id-client --example numbers -- 127.0.0.1:8080 clients.txt leaf
//!
//! The arguments are the address, the file of [`clients`], and the layout of IDs. Without a layout, the
//! service gives out no IDs, and leases no worker ID. README.md describes the paths.
//!
//! The service keeps no numbers on disk. At SIGTERM and at Ctrl-C, it answers the requests that it has
//! received, and hands its worker ID back.

mod clients;
mod metrics;
mod paths;
mod request;
mod service;

use std::convert::Infallible;
use std::env;
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use snowflake_id_client::{Client, Options};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::clients::Clients;
use crate::service::Service;

/// The maximum number of open connections. More clients wait in the queue of the listening socket.
const MAX_CONNECTIONS: usize = 500;
/// The time in which a client must send the head of its next request. Then its connection is closed.
const TIME_TO_ASK: Duration = Duration::from_secs(60);
/// The time in which a client must receive a part of a response. Then its connection is closed.
const TIME_TO_READ: Duration = Duration::from_secs(10);
/// The time for requests that have been received before the end of the service.
const TIME_TO_END: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(address), Some(file)) = (arguments.next(), arguments.next()) else {
        return Err("usage: numbers ADDRESS CLIENTS [LAYOUT]".into());
    };
    // Other users of the machine can read the arguments of a process, but not its environment.
    let registry = env::var("REGISTRY").map_err(|_| "REGISTRY must be the registry's connection string")?;
    let clients = Clients::read(&file)?;
    let options = Options::new(&registry).name("numbers");
    let (options, gives_ids) = match arguments.next() {
        Some(layout) => (options.layout(layout.parse()?), true),
        None => (options.numbers_only(), false),
    };
    let listener = TcpListener::bind(address).await?;
    let mut ends = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    let client = Client::start(options).await?;
    println!("The service listens on {}.", listener.local_addr()?);
    if let Some(identity) = client.identity() {
        println!("Its worker ID is {}.", identity.worker);
    }

    let service = Arc::new(Service::new(client.clone(), gives_ids, clients));
    let open = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let [terminated, interrupted] = &mut ends;
    loop {
        tokio::select! {
            accepted = accept(&listener, &places) => match accepted {
                Ok((stream, place)) => serve(stream, place, service.clone(), &open),
                Err(error) => {
                    // Usually there are too many open files.
                    eprintln!("a connection could not be accepted: {error}");
                    sleep(Duration::from_millis(100)).await;
                }
            },
            _ = terminated.recv() => break,
            _ = interrupted.recv() => break,
        }
    }
    drop(listener);
    let _ = timeout(TIME_TO_END, open.shutdown()).await;
    client.close().await;
    println!("The service has ended.");
    Ok(())
}

/// Accepts a connection when there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.expect("bug: nobody closes the semaphore");
    let (stream, _) = listener.accept().await?;
    // Responses are short. Without this option, the system may hold them back.
    stream.set_nodelay(true)?;
    // Also ends the connection of a client that sends acknowledgments, but does not read.
    SockRef::from(&stream).set_tcp_user_timeout(Some(TIME_TO_READ))?;
    Ok((stream, place))
}

/// Serves a connection in a task of its own, and then gives its place back.
fn serve(stream: TcpStream, place: OwnedSemaphorePermit, service: Arc<Service>, open: &GracefulShutdown) {
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIME_TO_ASK)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), answer);
    let connection = open.watch(connection);
    tokio::spawn(async move {
        // A client that goes away is no problem of the service.
        let _ = connection.await;
        drop(place);
    });
}
