//! Runs the stored inputs again. Inputs that once failed stay in the corpora.

use std::fs;
use std::path::Path;

use snowflake_id_fuzz::TARGETS;

#[test]
fn stored_inputs() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpora");
    for (name, target) in TARGETS {
        let files: Vec<_> =
            fs::read_dir(corpora.join(name)).unwrap().map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "there are no inputs for {name}");
        for file in files {
            println!("{}", file.display()); // Shown if the input fails.
            target(&fs::read(file).unwrap());
        }
    }
    let known = fs::read_dir(&corpora).unwrap().count();
    assert_eq!(known, TARGETS.len(), "a directory belongs to no target");
}
