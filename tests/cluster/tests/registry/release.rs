//! Holders that hand the rest of their ranges back. Topic `registry_release` of pg_regress covers what a single session
//! can test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::*;

use super::forgets::{set_back, with_copy};
use super::member::{Answer, CLOCK, Member, granted, many, start, state, unless_locked};

/// Releases the lease of a member that has used its range up to an instant, in microseconds of Unix time.
fn release(member: &Member, client: &mut Client, used_until: i64) -> Result<Answer, postgres::Error> {
    let nonces = format!("'last_nonce', '{}', 'next_nonce', '{}'", member.nonce, super::member::uuid());
    let request = member.request(&member.tokens(), &format!("{nonces}, 'used_until', {used_until}"));
    member.clone().ask(client, &format!("SELECT * FROM snowflake_registry.release({request})"))
}

fn clock_us(client: &mut Client) -> i64 {
    single(client, &format!("SELECT {CLOCK}"))
}

/// A range that was used: worker ID, start, end.
type Used = (i32, i64, i64);

/// Holders come and go, and all repeat their calls: late, with old tokens, after the release. No two of them use the
/// same time of one identity, and nothing looks like a loss.
#[test]
fn used_ranges_of_one_identity_do_not_overlap() {
    const WORKERS: i32 = 4;
    let cluster = start(many());
    let configure = "SELECT snowflake_registry.configure(lease => '3 minutes', renew_every => '1 second')";
    cluster.connect().run(configure);
    let is_over = AtomicBool::new(false);
    let used: Mutex<Vec<Used>> = Mutex::new(vec![]);
    let former: Mutex<Vec<Member>> = Mutex::new(vec![]);
    let answered = |asked| unless_locked(asked).unwrap_or_default();
    thread::scope(|scope| {
        for number in 0..8 {
            let (cluster, used, former, answered, is_over) = (&cluster, &used, &former, &answered, &is_over);
            scope.spawn(move || {
                let mut client = cluster.connect();
                while !is_over.load(Ordering::Relaxed) {
                    let mut member = Member::new();
                    let granted = answered(member.acquire(&mut client, WORKERS));
                    if granted.outcome != "granted" {
                        thread::sleep(Duration::from_millis(5));
                        continue;
                    }
                    for _ in 0..number % 3 {
                        assert_eq!(answered(member.renew(&mut client)).outcome, "granted");
                    }
                    // Some are ahead of the clock.
                    let until = clock_us(&mut client) + 10_000 * (number % 4);
                    used.lock().unwrap().push((granted.worker.unwrap(), granted.from.unwrap(), until));
                    let released = loop {
                        let answer = answered(release(&member, &mut client, until));
                        if !answer.outcome.is_empty() {
                            break answer;
                        }
                    };
                    assert_eq!(released.outcome, "released", "{released:?}");
                    former.lock().unwrap().push(member);
                }
            });
        }
        scope.spawn(|| {
            let mut client = cluster.connect();
            let mut random = Random::seeded();
            while !is_over.load(Ordering::Relaxed) {
                let member = {
                    let former = former.lock().unwrap();
                    let count = former.len().max(1) as u64;
                    former.get(random.below(count) as usize).cloned()
                };
                let Some(mut member) = member else { continue };
                let outcome = match random.below(3) {
                    0 => answered(member.renew(&mut client)).outcome,
                    1 => answered(release(&member, &mut client, 0)).outcome,
                    // Its token, shown with another lease.
                    _ => {
                        let mut other = Member { token: member.token.take(), ..Member::new() };
                        answered(other.renew(&mut client)).outcome
                    }
                };
                assert!(["", "unknown", "twin", "released"].contains(&outcome.as_str()), "{outcome}");
            }
        });
        let _stop = StopAtEnd(&is_over);
        eventually("many holders", || used.lock().unwrap().len() > 150);
    });
    let mut used = used.into_inner().unwrap();
    println!("{} holders", used.len());
    used.sort_unstable();
    for pair in used.windows(2) {
        assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?} overlap");
    }
    assert_eq!(state(&mut cluster.connect()), "ready", "{}", cluster.log());
}

/// The registry is set back to before the release and the next grant. The next holder proves that, and keeps its range.
#[test]
fn a_release_is_lost_with_the_next_grant() {
    let (cluster, copy, mut early) = with_copy();
    let mut client = cluster.connect();
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    let now = clock_us(&mut client);
    assert_eq!(release(&early, &mut client, now).unwrap().outcome, "released");
    let mut next = Member::new();
    let range = next.acquire(&mut client, 1).unwrap();
    assert_eq!(range.outcome, "granted", "{range:?}");
    next.renew(&mut client).unwrap();
    let mut client = set_back(cluster, &copy);
    // The delayed repetition of the release reaches a registry that knows of neither.
    let again = release(&early, &mut client, now).unwrap();
    assert_ne!(again.outcome, "released", "{again:?}");
    assert_eq!(next.renew(&mut client).unwrap().outcome, "unknown");
    assert_eq!(state(&mut client), "quarantine");
    let stranger = Member::new().acquire(&mut client, 1).unwrap();
    assert_eq!(stranger.outcome, "taken", "{stranger:?}");
    // Even if the administrator ends the quarantine, the next range starts after the end that was proved.
    client.run("SELECT snowflake_registry.end_quarantine()");
    let stranger = Member::new().acquire(&mut client, 1).unwrap();
    assert_eq!(stranger.outcome, "taken", "{stranger:?}");
    assert!(stranger.free_from >= range.until, "{stranger:?} {range:?}");
}

/// The registry is set back to before the grant. The holder shows its token as it releases.
#[test]
fn the_grant_of_a_released_lease_is_lost() {
    let (cluster, copy, _) = with_copy();
    let mut client = cluster.connect();
    let mut member = granted(&mut client);
    member.renew(&mut client).unwrap();
    let mut client = set_back(cluster, &copy);
    let now = clock_us(&mut client);
    let answer = release(&member, &mut client, now).unwrap();
    assert_ne!(answer.outcome, "granted", "{answer:?}");
    assert_eq!(state(&mut client), "quarantine");
}

/// The memory of a holder was copied, and the copy ends. The original learns of it, even if its worker ID has another
/// holder by then.
#[test]
fn a_copy_releases_the_lease_of_the_original() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    for is_granted_again in [false, true] {
        let mut original = granted(&mut client);
        for _ in 0..2 {
            original.renew(&mut client).unwrap();
        }
        let copy = original.clone();
        let now = clock_us(&mut client);
        assert_eq!(release(&copy, &mut client, now).unwrap().outcome, "released");
        if is_granted_again {
            granted(&mut client);
        }
        assert_eq!(original.renew(&mut client).unwrap().outcome, "twin");
    }
    assert_eq!(state(&mut client), "ready");
}
