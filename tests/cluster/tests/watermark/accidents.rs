//! Consumers skip no rows over accidents: processes are killed, the server is restarted, and its worker ID changes.

use harness::*;

use super::consumers::{self, WAYS};
use super::in_order::while_consuming;
use super::writers::{self, KINDS, finish_prepared};

fn have_an_accident(server: &Cluster, random: &mut Random) -> &'static str {
    const CLIENT: &str = "backend_type = 'client backend'";
    let run = |statement: &str| server.try_run(statement);
    match random.below(10) {
        0 => {
            signal_one(server, "KILL", CLIENT, random);
            "a backend is killed"
        }
        1 => {
            server.try_to_stop("immediate");
            "immediate stop"
        }
        2 => {
            server.try_to_stop("fast");
            "fast stop"
        }
        3 => {
            cut_power(server);
            "power failure"
        }
        4 => {
            run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper'",
            );
            "the keeper is terminated"
        }
        5 | 6 => {
            signal_one(server, ["INT", "TERM"][random.below(2) as usize], CLIENT, random);
            "a backend is canceled or terminated"
        }
        _ => "",
    }
}

#[test]
fn no_row_is_skipped_over_accidents() {
    let server = writers::server(Cluster::builder().short_horizon());
    consumers::prepare(&server);
    let consumed = while_consuming(&server, &KINDS, &WAYS, true, 1, |random| {
        for _ in 0..rounds(4) {
            random.pause(800);
            let worker = 1 + random.below(15);
            server.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
            server.try_run("SELECT pg_reload_conf()");
            random.pause(100);
            println!("worker {worker} {}", have_an_accident(&server, random));
            random.pause(300);
            server.bring_up();
            // Prepared transactions from before a restart hold back the watermark until they are finished.
            random.pause(500);
            finish_prepared(&server);
            leased_worker(&server);
        }
    });
    consumers::check(&server, &consumed);
}
