//! A stand-in for a server that speaks just enough of PostgreSQL's protocol to answer queries for one text.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Serves each connection to an address in a thread of its own. Port 0 means any port. Returns the port.
pub fn listen(address: &str, port: u16, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind((address, port)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream.unwrap()));
        }
    });
    port
}

/// Accepts a session, and answers each statement with its parameters until the client closes the connection. After
/// `None`, the server says nothing.
pub fn serve(mut stream: TcpStream, mut answer: impl FnMut(&str, &str) -> Option<String>) -> Option<()> {
    read(&mut stream, false)?;
    stream.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat()).ok()?;
    loop {
        let (mut statement, mut parameters) = (String::new(), String::new());
        loop {
            match read(&mut stream, true)? {
                (b'P', text) => statement = text,
                (b'B', text) => parameters = text,
                (b'S', _) => break,
                _ => {}
            }
        }
        let Some(text) = answer(&statement, &parameters) else {
            read(&mut stream, true)?;
            return None;
        };
        let reply = [
            message(b'1', b""),
            message(b'2', b""),
            message(b't', b"\0\0"),
            message(b'T', b"\0\x01text\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"),
            message(b'D', &[b"\0\x01", &(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()),
            message(b'C', b"SELECT 1\0"),
            message(b'Z', b"I"),
        ];
        stream.write_all(&reply.concat()).ok()?;
    }
}

/// Reads a message. Returns its tag and its text.
fn read(stream: &mut TcpStream, has_tag: bool) -> Option<(u8, String)> {
    let (mut tag, mut length) = ([0], [0; 4]);
    if has_tag {
        stream.read_exact(&mut tag).ok()?;
    }
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((tag[0], String::from_utf8_lossy(&body).into_owned()))
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}
