//! The tutorial "Two servers in ten steps", command by command as written, on two servers of this host.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use harness::book::of_test;
use harness::*;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("two_servers"));
/// The harness runs this command itself, because it knows how its servers are started.
const RESTART: &str = "sudo pg_ctlcluster 15 main restart\n";

/// One of the two hosts.
struct Host {
    server: Cluster,
    address: String,
}

impl Host {
    /// Starts a server that has an address but accepts connections on its Unix socket only.
    fn new(network: u8) -> Host {
        let server = Cluster::builder().stopped();
        let hba = server.data_dir().join("pg_hba.conf");
        fs::write(hba, "local all all trust\n").unwrap();
        server.start_server();
        let process = std::process::id();
        Host { server, address: format!("127.{network}.{}.{}", process % 250, process / 250 % 250) }
    }

    /// Runs a command of the page. Returns its output.
    fn run(&self, command: &str, registry: &str) -> String {
        let directory = self.server.host().display();
        let mut command = command.to_owned();
        for (there, here) in [
            ("10.0.0.0/24", "127.0.0.1/32"), // Clients on this host connect from this address.
            ("10.0.0.1", registry),
            ("listen_addresses = '*'", &format!("listen_addresses = '{}'", self.address)),
            ("/etc/postgresql/15/main", &format!("{directory}/data")),
            ("/var/lib/postgresql", &directory.to_string()),
        ] {
            command = command.replace(there, here);
        }
        let programs = ask_pg_config(&pg_config(), "--bindir");
        let script = format!(
            "exec 2>&1\n\
             export PATH='{programs}':\"$PATH\" PGHOST='{directory}' PGUSER=test PGDATABASE=postgres LC_ALL=C\n\
             sudo() {{ if [ \"$1\" = -u ]; then shift 2; fi; \"$@\"; }}\n\
             {command}"
        );
        let mut shell = as_server_user(Path::new("/bin/sh"));
        let output = shell.args(["-c", &script]).current_dir(self.server.host()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// The words that psql prints, without the lines of its tables. All IDs are replaced by the same word.
fn shape(output: &str) -> Vec<&str> {
    let is_line = |word: &str| word.trim_matches(['-', '+']).is_empty();
    let is_id = |word: &str| word.len() >= 15 && word.bytes().all(|byte| byte.is_ascii_digit());
    let words = output.split_whitespace().filter(|word| !is_line(word));
    words.map(|word| if is_id(word) { "an ID" } else { word }).collect()
}

#[test]
fn two_servers_in_ten_commands() {
    let [alpha, beta] = [78, 79].map(Host::new);
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let mut blocks = blocks.map(|block| block.split_once('\n').unwrap()).peekable();
    let mut commands = 0;
    while let Some((language, block)) = blocks.next() {
        assert_eq!(language, "sh", "{block}");
        let (place, command) = block.split_once('\n').unwrap();
        let hosts = match place {
            "# on alpha" => vec![&alpha],
            "# on beta" => vec![&beta],
            "# on alpha and beta" => vec![&alpha, &beta],
            _ => panic!("where is this run? {place}"),
        };
        let expected = blocks.next_if(|(language, _)| *language == "text").map(|(_, text)| text);
        for host in hosts {
            if command == RESTART {
                host.server.restart("fast");
            } else if let Some(expected) = expected {
                // The lease arrives a moment after the previous command.
                eventually(command, || {
                    let output = host.run(command, &alpha.address);
                    let is_expected = shape(&output) == shape(expected);
                    is_expected.then_some(()).ok_or_else(|| std::io::Error::other(output))
                });
            } else {
                let output = host.run(command, &alpha.address);
                assert!(!output.to_lowercase().contains("error"), "{command}{output}");
            }
        }
        commands += 1;
    }
    assert_eq!(commands, 10);
    // Both have reached the registry over the network, with their passwords.
    for host in [&alpha, &beta] {
        let mut client = host.server.connect();
        assert_eq!(shown(&mut client, "registry_state").as_deref(), Some("granted"));
        assert_eq!(shown(&mut client, "identity_source").as_deref(), Some("registry"));
    }
}
