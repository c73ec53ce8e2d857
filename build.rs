//! How the library finds libpq.

fn main() {
    // Where the server has a libpq of its own, beside or above its libraries, that one. Whichever libpq a process loads first
    // serves all of its libraries: preloaded with the system's, which may be older, a standby could not connect to its primary.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN:$ORIGIN/..");
    println!("cargo::rerun-if-changed=build.rs");
}
