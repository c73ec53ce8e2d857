//! What the registry worker does, round after round: it renews the lease, or asks for one.

use std::ffi::{CStr, CString};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use serde_json::json;
use snowflake_id_core::lease_state::{LeaseState, Needs, Outcome};
use snowflake_id_core::message::instant;
use snowflake_id_core::{Field, Lease};
use uuid::Uuid;

use super::answer::{Answer, COLUMNS};
use super::lease_file;
use crate::background::link::{self, NoAnswer};
use crate::background::stop::is_stopping;
use crate::config;
use crate::error::duration;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;
use crate::pg::random::{random_bytes, random_fraction};
use crate::pg::wait::wait;
use crate::pg::{clock, process, server};
use crate::shared::lease::{self, RegistryState};
use crate::shared::memory::State;
use crate::wait_event::WaitEvent;

/// For how long a server that has just been started tries to renew the lease in its file before it goes on with it.
const TIME_TO_RENEW_FIRST: Duration = Duration::from_secs(2);
/// How soon it tries again after a first failure, and at most how long it then waits.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// For how long at least a worker ID is not asked for that has turned out to be of no use.
const LEAST_TIME_UNWANTED: Duration = Duration::from_secs(60);
/// The registry refuses to leave out more.
const MOST_UNWANTED: usize = 10_000;
/// A shorter sleep is none to a latch.
const SHORTEST_NAP: Duration = Duration::from_millis(1);
/// The bounds that the registry has as well. What answers may be no registry.
const SHORTEST_LEASE_US: i64 = 1_000_000;
const LONGEST_LEASE_US: i64 = 24 * 60 * 60 * 1_000_000;
const SHORTEST_RENEWAL_US: i64 = 100_000;
/// How many bytes of what others say is in the way are told.
const LONGEST_PROBLEM: usize = 400;
/// The registry decides nothing when the clocks differ by more; so no lease begins later than that.
const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;

pub struct Worker {
    shared: &'static State,
    started: Instant,
    state: LeaseState,
    /// Whether the registry does not know the lease in hand. It is used to its end all the same.
    is_unknown: bool,
    /// Worker IDs that have turned out to be of no use, and since when. It is not for ever.
    unwanted: Vec<(u32, Instant)>,
    /// Whether the lease in hand was granted before this process began.
    is_inherited: bool,
    /// How often in a row there was no lease.
    failures: u32,
    /// How long a lease and the time between renewals are.
    lease_us: i64,
    renew_every: Duration,
    /// How long the last exchange took.
    round_trip_us: i64,
    clock_offset_us: Option<i64>,
    /// The number of the last news after which an identity was found to be of no use.
    noted_after: u64,
    /// What was logged last.
    last_problem: Option<String>,
    /// Whether the registry's database can write what this server says of itself.
    tells_facts_as_they_are: bool,
    /// Which identities would have done in the last round, or why none.
    asked_for: Result<Needs, String>,
}

/// How a round has ended.
enum Round {
    /// With what the registry has to say beside that.
    Granted { note: Option<String> },
    /// Not granted: how things are, why, and when it may be worth while to ask again, if that is known.
    Refused { state: RegistryState, why: String, free_from_us: i64 },
}

fn new_token() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

impl Worker {
    pub fn new(shared: &'static State) -> Worker {
        let (state, problem) = lease_file::read();
        if let Some(problem) = problem {
            log!("snowflake_id: {problem}");
        }
        Worker {
            shared,
            started: Instant::now(),
            state,
            is_unknown: false,
            unwanted: vec![],
            is_inherited: true,
            failures: 0,
            lease_us: 0,
            renew_every: LONGEST_PAUSE,
            round_trip_us: 0,
            clock_offset_us: None,
            noted_after: 0,
            // The process before this one may have said it.
            last_problem: lease::news().problem(),
            tells_facts_as_they_are: true,
            asked_for: Ok(Needs::default()),
        }
    }

    pub fn run(&mut self) {
        loop {
            self.shared.board.registry_bell.take_wanted();
            let Some(string) = config::registry() else { return };
            let pause = match self.round(&string) {
                Err(NoAnswer::Stopping) => return,
                Ok(Round::Granted { note }) => self.succeed(note),
                Ok(Round::Refused { state, why, free_from_us }) => self.fail(state, why, free_from_us),
                Err(NoAnswer::Failed(problem) | NoAnswer::Refused(problem)) => {
                    self.fail(RegistryState::Unreachable, problem, 0)
                }
                Err(NoAnswer::Stuck(problem)) => {
                    self.fail(RegistryState::Unreachable, problem, 0);
                    // The keeper starts another one.
                    process::exit(1);
                }
            };
            if !self.sleep(pause) {
                return;
            }
        }
    }

    /// Sleeps until it is time for the next round. Returns whether to go on.
    fn sleep(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.shared.board.registry_bell.is_wanted() {
            let left = until.saturating_duration_since(Instant::now());
            wait(left.max(SHORTEST_NAP), WaitEvent::Registry.number());
            self.note_unwanted();
            if !self.look_around() || self.needs() != self.asked_for {
                break;
            }
        }
        self.look_around()
    }

    /// What has to be looked after also while the registry does not answer. Returns whether to go on.
    fn look_around(&mut self) -> bool {
        let registry = config::registry();
        process::reload_if_asked();
        if config::registry() != registry {
            self.shared.board.registry_bell.ring();
        }
        if self.started.elapsed() >= TIME_TO_RENEW_FIRST {
            self.tell_lease_in_hand();
        }
        !is_stopping() && config::registry().is_some()
    }

    /// If the keeper can do nothing with the lease that it was told, its worker ID is not wanted any more.
    fn note_unwanted(&mut self) {
        let news = lease::news();
        let after = self.shared.board.keeper.another_needed_after.load(Ordering::Relaxed);
        let time = Duration::from_micros(self.lease_us.unsigned_abs()).max(LEAST_TIME_UNWANTED);
        self.unwanted.retain(|(_, since)| since.elapsed() < time);
        if let Some(Lease { identity, .. }) = news.lease
            && after == news.number
            && self.noted_after != news.number
        {
            self.noted_after = news.number;
            if self.unwanted.len() == MOST_UNWANTED {
                self.unwanted.remove(0);
            }
            self.unwanted.push((identity.worker, Instant::now()));
        }
    }

    /// Which identities will do, or why none will.
    fn needs(&self) -> Result<Needs, String> {
        let (datacenter, pin) = (config::datacenter_id(), config::worker_id());
        let layout = config::valid_layout().ok_or("snowflake_id.layout is not valid")?;
        let worker_limit = 1u64 << layout.bits(Field::Worker);
        let does_not_fit = |what: &str, number: u32| {
            Err(format!("snowflake_id.{what} {number} does not fit snowflake_id.layout \"{layout}\""))
        };
        match pin {
            _ if u64::from(datacenter) >> layout.bits(Field::Datacenter) != 0 => {
                does_not_fit("datacenter_id", datacenter)
            }
            Some(pin) if u64::from(pin) >= worker_limit => does_not_fit("worker_id", pin),
            // A worker ID has at most 31 bits.
            _ => Ok(Needs {
                datacenter,
                pin,
                worker_limit: worker_limit as u32,
                unwanted: self.unwanted.iter().map(|(worker, _)| *worker).collect(),
            }),
        }
    }

    /// Connects, and asks what there is to ask.
    fn round(&mut self, string: &CStr) -> Result<Round, NoAnswer> {
        self.note_unwanted();
        self.asked_for = self.needs();
        let needs = match self.asked_for.clone() {
            Ok(needs) => needs,
            Err(why) => {
                return Ok(Round::Refused { state: RegistryState::Misconfigured, why, free_from_us: 0 });
            }
        };
        let mut connection = link::connect(string, &mut || self.look_around())?;
        if self.has_known_lease() {
            let renewed = self.renew(&mut connection)?;
            let is_granted = matches!(renewed, Round::Granted { .. });
            // The registry may have said that it does not know the lease, or that it is somebody else's.
            let is_another_needed =
                if is_granted { self.state.has_to_acquire(&needs) } else { !self.has_known_lease() };
            if !is_another_needed {
                return Ok(renewed);
            }
        }
        self.acquire(&mut connection, &needs)
    }

    /// Whether there is a lease that the registry, as far as is known, knows as well.
    fn has_known_lease(&self) -> bool {
        !self.is_unknown && self.state.held.is_some()
    }

    /// Asks for the lease in hand to be renewed.
    fn renew(&mut self, connection: &mut Connection) -> Result<Round, NoAnswer> {
        let Some(held) = self.state.held.clone() else { return Ok(Round::Granted { note: None }) };
        let query = CString::new(format!(
            "SELECT {COLUMNS} FROM snowflake_registry.renew($1::uuid, $2::bigint, $3::bigint, $4::uuid, $5::uuid, $6::uuid, $7::jsonb)"
        ))
        .unwrap_or_default();
        let tokens = [held.lease_id, held.last_nonce, held.next_nonce].map(|token| Some(token.to_string()));
        let answer = self.ask(connection, &query, tokens.into_iter().chain([Some(self.facts())]))?;
        match answer.outcome {
            Outcome::Granted(lease) if lease.is_same_range(&held.lease) => {
                let now_us = clock::clock_us();
                self.keep(|state| {
                    state.renew(lease, new_token);
                    if let Some(token) = answer.token {
                        state.prove(token, now_us);
                    }
                })?;
                if !self.state.is_proved() {
                    return Err("the registry has signed nothing: is it an older version?".to_owned().into());
                }
                self.tell_lease();
                Ok(Round::Granted { note: answer.detail })
            }
            // A question that came late may have had this lease ID granted another range: that is not what is in hand.
            Outcome::Unknown | Outcome::Granted(_) => {
                log!(
                    "snowflake_id: the registry does not know the lease of {} any more; it is used to its end",
                    held.lease.identity
                );
                self.is_unknown = true;
                Ok(self.refused(Outcome::Unknown, answer.detail))
            }
            Outcome::Twin => {
                // Somebody else makes IDs under this very lease, and may have done so for some time.
                self.withdraw();
                ereport!(
                    PgLogLevel::WARNING,
                    PgSqlErrorCode::ERRCODE_WARNING,
                    format!(
                        "snowflake_id: another server has the same lease of {}: one of the two is a copy of the other",
                        held.lease.identity
                    )
                );
                // Also if that cannot be written down.
                self.state.held = None;
                self.keep(|_| ())?;
                Ok(self.refused(Outcome::Twin, answer.detail))
            }
            outcome => Ok(self.refused(outcome, answer.detail)),
        }
    }

    /// Asks for an identity.
    fn acquire(&mut self, connection: &mut Connection, needs: &Needs) -> Result<Round, NoAnswer> {
        let asking = self.keep(|state| state.ask(new_token))?;
        let query = CString::new(format!(
            "SELECT {COLUMNS} FROM snowflake_registry.acquire($1::uuid, $2::bigint, $3::bigint, $4::uuid, $5::uuid, $6::jsonb, $7::int, $8::int, $9::int, $10::int[])"
        ))
        .unwrap_or_default();
        let unwanted: Vec<_> = needs.unwanted.iter().map(u32::to_string).collect();
        let parameters = [
            Some(asking.lease_id.to_string()),
            Some(asking.nonce.to_string()),
            Some(self.facts()),
            Some(needs.datacenter.to_string()),
            needs.pin.map(|pin| pin.to_string()),
            Some(needs.worker_limit.min(i32::MAX as u32).to_string()),
            Some(format!("{{{}}}", unwanted.join(","))),
        ];
        let answer = self.ask(connection, &query, parameters.into_iter())?;
        match answer.outcome {
            Outcome::Granted(lease) if needs.are_met_by(lease.identity) => {
                if lease.from_us > clock::clock_us().saturating_add(MOST_CLOCK_DIFFERENCE_US) {
                    return Ok(self.refused(Outcome::ClockDiffers, answer.detail));
                }
                self.keep(|state| state.hold(lease, new_token))?;
                self.is_unknown = false;
                self.is_inherited = false;
                // Only what is committed is signed, so that it takes a second question.
                let renewed = self.renew(connection)?;
                if let Round::Granted { .. } = renewed {
                    log!("snowflake_id: {} is leased up to {}", lease.identity, instant(lease.until_us));
                }
                Ok(renewed)
            }
            // What was asked for earlier, under other settings.
            Outcome::Granted(lease) => {
                self.keep(|state| state.asking = None)?;
                let why = format!("{} is of no use to this server", lease.identity);
                Ok(Round::Refused { state: RegistryState::AllTaken, why, free_from_us: 0 })
            }
            // Somebody else has asked under these very IDs, and gone on with what was granted.
            Outcome::Twin => {
                self.keep(|state| state.asking = None)?;
                Ok(self.refused(Outcome::Twin, answer.detail))
            }
            outcome => Ok(self.refused(outcome, answer.detail)),
        }
    }

    /// Asks a question. What this server says of itself, the registry's database may not be able to write: then it is said in
    /// ASCII, as no worker ID depends on it.
    fn ask(
        &mut self,
        connection: &mut Connection,
        query: &CStr,
        parameters: impl Iterator<Item = Option<String>>,
    ) -> Result<Answer, NoAnswer> {
        let mut parameters: Vec<_> = parameters.collect();
        let is_ascii = parameters.iter().flatten().all(|text| text.is_ascii());
        if is_ascii || self.tells_facts_as_they_are {
            match self.ask_once(connection, query, &parameters) {
                Err(NoAnswer::Refused(_)) if !is_ascii => {}
                answered => return answered,
            }
        }
        parameters.iter_mut().flatten().for_each(|text| *text = in_ascii(text));
        let answered = self.ask_once(connection, query, &parameters);
        self.tells_facts_as_they_are = answered.is_err();
        answered
    }

    /// Asks, and notes what every answer says.
    fn ask_once(
        &mut self,
        connection: &mut Connection,
        query: &CStr,
        parameters: &[Option<String>],
    ) -> Result<Answer, NoAnswer> {
        let sent_us = clock::clock_us();
        let sent = Instant::now();
        let known = [
            self.state.registry_id.map(|id| id.to_string()),
            Some(sent_us.to_string()),
            Some(self.round_trip_us.to_string()),
        ];
        let parameters = known.iter().chain(parameters);
        let parameters: Vec<_> = parameters.map(|text| CString::new(text.as_deref()?).ok()).collect();
        let row = link::ask(connection, query, &parameters, &mut || self.look_around())?;
        let answer = Answer::read(&row)?;
        if let Outcome::Granted(lease) = answer.outcome {
            let latest_us = clock::clock_us().saturating_add(LONGEST_LEASE_US + MOST_CLOCK_DIFFERENCE_US);
            if lease.until_us > latest_us || lease.until_us <= lease.from_us {
                return Err(
                    format!("it grants what no registry grants, up to {}", instant(lease.until_us)).into()
                );
            }
        }
        self.round_trip_us = sent.elapsed().as_micros() as i64;
        if let (Some(registry), true) = (&answer.registry, answer.outcome != Outcome::Foreign) {
            // What gives nothing may call itself anything. The registry would then be another one than before.
            if let Outcome::Granted(_) = answer.outcome {
                self.state.note(registry.id);
            }
            self.lease_us = registry.lease_us.clamp(SHORTEST_LEASE_US, LONGEST_LEASE_US);
            let renew_every_us = registry.renew_every_us.clamp(SHORTEST_RENEWAL_US, self.lease_us / 2);
            self.renew_every = Duration::from_micros(renew_every_us.unsigned_abs());
        }
        let offset_us = (sent_us + self.round_trip_us / 2).saturating_sub(answer.registry_clock_us);
        self.clock_offset_us = Some(offset_us);
        Ok(answer)
    }

    fn facts(&self) -> String {
        let layout = config::valid_layout().map(|layout| layout.to_string());
        json!({
            "node_name": config::node_name(),
            "host": server::host(),
            "port": server::port(),
            "layout": layout,
            "version": env!("CARGO_PKG_VERSION"),
            "clock_offset": self.clock_offset_us,
            "tokens": self.state.evidence.iter().map(|evidence| &evidence.token).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Changes what is known, and writes it down first: nothing counts that is not in the file.
    fn keep<T>(&mut self, change: impl FnOnce(&mut LeaseState) -> T) -> Result<T, NoAnswer> {
        let mut state = self.state.clone();
        let result = change(&mut state);
        lease_file::write(&state)?;
        self.state = state;
        Ok(result)
    }

    /// Tells the keeper the lease in hand.
    fn tell_lease(&self) {
        let lease = self.state.lease_at(clock::clock_us());
        let is_inherited = self.is_inherited;
        lease::tell(|news| (news.lease, news.is_inherited) = (lease, is_inherited));
        self.shared.board.bell.ring();
    }

    /// The same, without an answer of the registry: what is in hand is this server's alone, whatever the registry says.
    fn tell_lease_in_hand(&mut self) {
        if let (None, Some(lease)) = (lease::news().lease, self.state.lease_at(clock::clock_us())) {
            log!(
                "snowflake_id: goes on with the lease of {}, up to {}",
                lease.identity,
                instant(lease.until_us)
            );
            self.tell_lease();
        }
    }

    /// Takes the lease back from the keeper, at once.
    fn withdraw(&mut self) {
        lease::tell(|news| news.lease = None);
        self.shared.close_gate();
        self.shared.board.bell.ring();
    }

    fn refused(&self, outcome: Outcome, detail: Option<String>) -> Round {
        let (state, why, free_from_us) = match outcome {
            Outcome::Granted(_) => (RegistryState::Granted, "it has granted another lease".into(), 0),
            Outcome::Unknown => (RegistryState::Granted, "it does not know the lease".into(), 0),
            Outcome::Twin => (RegistryState::Granted, "another server has the same lease".into(), 0),
            Outcome::Taken { free_from_us } => {
                let when = match free_from_us {
                    0 => String::new(),
                    _ => format!("; the first will be free at {}", instant(free_from_us)),
                };
                (RegistryState::AllTaken, format!("it has no worker ID for this server{when}"), free_from_us)
            }
            Outcome::Quarantine => (RegistryState::Quarantine, "it gives out nothing now".into(), 0),
            Outcome::ClockDiffers => (
                RegistryState::ClockDiffers,
                format!("its clock and that of this server differ by {}", self.clock_difference()),
                0,
            ),
            Outcome::Foreign => {
                let why = "it is another registry than the one before; if that is meant, stop the server and remove file snowflake_id.lease from its data directory";
                (RegistryState::Foreign, why.into(), 0)
            }
        };
        let why = detail.map_or(why.clone(), |detail| format!("{why} ({detail})"));
        Round::Refused { state, why, free_from_us }
    }

    fn clock_difference(&self) -> String {
        duration(Duration::from_micros(self.clock_offset_us.unwrap_or(0).unsigned_abs()))
    }

    /// After a lease was granted: tells so, and what the registry noted. Returns how long to sleep.
    fn succeed(&mut self, note: Option<String>) -> Duration {
        self.failures = 0;
        self.last_problem = None;
        let offset = Duration::from_micros(self.clock_offset_us.unwrap_or(0).unsigned_abs());
        let is_clock_good = offset <= config::max_clock_offset();
        let mut warning = note;
        if !is_clock_good {
            let text =
                format!("the clock of this server and that of the registry differ by {}", duration(offset));
            warning = Some(text);
        }
        if let Some(text) = &mut warning {
            text.truncate(text.floor_char_boundary(LONGEST_PROBLEM));
        }
        self.warn(warning.as_deref());
        let (now_us, since_boot_us) = clock::clocks_us();
        let offset_us = self.clock_offset_us;
        lease::tell(|news| {
            news.state = RegistryState::Granted;
            news.renewed_at_us = now_us;
            news.clock_offset_us = offset_us;
            news.confirmed_clock_us = is_clock_good.then_some(now_us - since_boot_us);
            news.free_from_us = 0;
            news.set_problem(None);
            news.set_warning(warning.as_deref());
        });
        // Not all servers of a fleet at once.
        self.renew_every.mul_f64(0.9 + 0.2 * random_fraction())
    }

    /// Without one: goes on with what is in hand, and tells so. Returns how long to sleep.
    fn fail(&mut self, state: RegistryState, mut why: String, free_from_us: i64) -> Duration {
        why.truncate(why.floor_char_boundary(LONGEST_PROBLEM));
        self.tell_lease_in_hand();
        self.failures += 1;
        let problem = format!("no lease from the registry: {why}");
        if self.last_problem.as_deref().map(without_numbers) != Some(without_numbers(&problem)) {
            log!("snowflake_id: {problem}");
        }
        self.last_problem = Some(problem.clone());
        let now_us = clock::clock_us();
        let until_us = self.state.held.as_ref().map_or(0, |held| held.lease.until_us);
        let warning = match until_us - now_us {
            left_us if left_us > 0 && left_us < self.lease_us / 2 => Some(format!(
                "the lease of this server's worker ID ends at {}, and was not renewed: {why}",
                instant(until_us)
            )),
            _ => None,
        };
        self.warn(warning.as_deref());
        let offset_us = self.clock_offset_us;
        lease::tell(|news| {
            news.state = state;
            news.clock_offset_us = offset_us;
            news.confirmed_clock_us = None;
            news.free_from_us = free_from_us;
            news.set_problem(Some(&problem));
            news.set_warning(warning.as_deref());
        });
        self.shared.board.bell.ring();
        let longest = LONGEST_PAUSE.min(self.renew_every).max(FIRST_PAUSE);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(longest);
        pause.mul_f64(0.5 + 0.5 * random_fraction())
    }

    /// Logs a warning when it is new.
    fn warn(&self, text: Option<&str>) {
        if let Some(text) = text
            && lease::news().warning().as_deref().map(without_numbers) != Some(without_numbers(text))
        {
            ereport!(PgLogLevel::WARNING, PgSqlErrorCode::ERRCODE_WARNING, format!("snowflake_id: {text}"));
        }
    }
}

/// A text by which to tell whether there is anything new: times and differences are not.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|character| !character.is_ascii_digit()).collect()
}
