//! [`Stream`]: a socket that reads a bounded number of bytes for each answer, because the other side may
//! not be a registry.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum length of an answer, in bytes, as for servers.
const LONGEST_ANSWER: usize = 1 << 20;

/// The number of bytes that may still be read.
#[derive(Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub fn new() -> Budget {
        Budget(Arc::new(AtomicUsize::new(LONGEST_ANSWER)))
    }

    /// Allows another answer.
    pub fn renew(&self) {
        self.0.store(LONGEST_ANSWER, Ordering::Relaxed);
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        let left =
            left.checked_sub(bytes).ok_or_else(|| io::Error::other("the registry's reply is too long"))?;
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

/// A connection to a host. A TLS connector wraps it.
pub struct Stream {
    socket: Box<dyn Socket>,
    budget: Budget,
}

impl Stream {
    pub(crate) fn new(
        socket: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        budget: Budget,
    ) -> Stream {
        Stream { socket: Box::new(socket), budget }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(context, buffer))?;
        Poll::Ready(self.budget.spend(buffer.filled().len() - before))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
