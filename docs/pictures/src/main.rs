//! `make pictures`: writes the pictures of the book.

use std::fs;

fn main() {
    let directory = snowflake_id_pictures::directory();
    for file in snowflake_id_pictures::files() {
        let path = directory.join(&file.name);
        fs::write(&path, file.svg).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
