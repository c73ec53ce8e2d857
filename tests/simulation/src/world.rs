//! A run: the servers, the registry, and the events.

use std::collections::BTreeMap;

use snowflake_id_core::segment_records::SegmentRecords;
use snowflake_id_core::{Field, Identity, Layout};

use crate::action::{Action, Kind};
use crate::context::{Context, Failure, duration};
use crate::disk::{Disk, Pages, SEGMENTS, StandbyKind, Stored};
use crate::keeper::Ending;
use crate::ledger::Ledger;
use crate::mutation::Broken;
use crate::random::Random;
use crate::registry::{Kind as Told, Registry};
use crate::server::{LeaseFile, Original, Server};
use crate::setup::{BEGAN_US, Setup};
use crate::shared::Request;

/// The maximum number of copies started beside the initial servers.
const MOST_COPIES: usize = 6;

pub struct World<'a> {
    setup: &'a Setup,
    pub cx: Context,
    servers: Vec<Server>,
    registry: Registry,
}

/// The result of a run.
pub struct Outcome {
    pub failure: Option<Failure>,
    pub story: Vec<String>,
    pub ids: u64,
    pub numbers: u64,
    pub faults: BTreeMap<&'static str, u64>,
    pub lasted_us: i64,
}

impl Outcome {
    /// A digest, which is the same for identical runs.
    pub fn digest(&self) -> (u64, u64, u64) {
        (self.ids, self.numbers, self.faults.values().sum())
    }
}

/// Executes a schedule, then ends all faults and checks that every server continues.
pub fn run(setup: &Setup, schedule: &[Action], broken: Broken, is_told: bool) -> Outcome {
    let mut world = World::new(setup, broken, is_told);
    for action in schedule {
        world.act(action);
        if world.cx.failure.is_some() {
            break;
        }
    }
    if world.cx.failure.is_none() {
        world.calm_down();
    }
    let cx = world.cx;
    Outcome {
        failure: cx.failure,
        story: cx.story.unwrap_or_default(),
        ids: cx.ledger.id_count,
        numbers: cx.ledger.number_count,
        faults: cx.faults,
        lasted_us: cx.now_us - cx.began_us,
    }
}

impl World<'_> {
    fn new(setup: &Setup, broken: Broken, is_told: bool) -> World<'_> {
        let mut random = Random::new(setup.seed ^ 0x5eed);
        let mut cx = Context {
            now_us: BEGAN_US,
            began_us: BEGAN_US,
            broken,
            ledger: Ledger::new(setup.segments(), BEGAN_US),
            failure: None,
            story: is_told.then(Vec::new),
            faults: BTreeMap::new(),
            fresh_workers: setup.workers..u32::MAX,
            next_oid: 1000,
            is_evidence_lost: false,
        };
        let servers = setup.servers.iter().enumerate().map(|(at, server)| {
            let workers: Vec<_> = match server.is_leased {
                true => vec![],
                false => (0..2).filter_map(|_| cx.fresh_worker()).collect(),
            };
            let stored = Stored { oid: cx.fresh_oid(), ..Stored::default() };
            Server {
                at,
                name: format!("S{at}"),
                is_leased: server.is_leased,
                worker: workers.first().copied(),
                workers,
                must_raise: None,
                has_raised: None,
                layout_at: server.layout_at,
                max_ahead_us: server.max_ahead_us,
                horizon_margin_us: server.horizon_margin_us,
                spread: server.spread,
                disk: Disk::new(Pages(Some(stored)), server.standby),
                file: LeaseFile::default(),
                numbers_file: SegmentRecords::default(),
                original: Original { disk: random.bits(), boot: random.bits(), timeline: 1 },
                backup: None,
                offset_us: random.between(-20_000, 20_000),
                booted_us: BEGAN_US - 3_600_000_000,
                is_cut: false,
                is_commit_failing: false,
                running: None,
                last: BTreeMap::new(),
                granted: vec![],
                last_number: [0; SEGMENTS],
            }
        });
        let mut servers: Vec<_> = servers.collect();
        let registry = Registry::new(
            random.uuid(),
            setup.lease_us,
            setup.workers,
            setup.witnesses,
            setup.segments(),
            BEGAN_US,
        );
        let texts: Vec<_> = setup.layouts.iter().map(Layout::to_string).collect();
        cx.say("world", || {
            format!(
                "{} servers; layouts {}; leases of {}, {} worker IDs{}",
                setup.servers.len(),
                texts.join(", "),
                duration(setup.lease_us),
                setup.workers,
                if setup.witnesses { "" } else { ", no witnesses" }
            )
        });
        for server in &mut servers {
            let (kind, worker) = (server.disk.kind, server.worker);
            let (ahead_us, margin_us, layout_at) =
                (server.max_ahead_us, server.horizon_margin_us, server.layout_at);
            server.say(&mut cx, || {
                let who = worker.map_or("leased".into(), |worker| format!("worker ID {worker}"));
                format!(
                    "{who}, layout {layout_at}, max_ahead {}, horizon {} ahead, standby: {kind:?}",
                    duration(ahead_us),
                    duration(margin_us)
                )
            });
            server.start(&mut cx);
        }
        World { setup, cx, servers, registry }
    }

    fn act(&mut self, action: &Action) {
        if !self.setup.is_possible(action.kind) {
            return;
        }
        self.cx.now_us += action.after_us;
        let mut random = Random::new(action.entropy);
        if let Some(fault) = self.act_on(action, &mut random) {
            self.cx.count(fault);
        }
    }

    /// Executes an action. Returns the name of the fault if the action was a fault that had an effect.
    fn act_on(&mut self, action: &Action, random: &mut Random) -> Option<&'static str> {
        let World { setup, cx, servers, registry } = self;
        let layouts = &setup.layouts;
        let count = servers.len();
        // Sometimes a copy is chosen in place of its original.
        let at = match count - setup.servers.len() {
            copies if copies > 0 && random.one_in(4) => setup.servers.len() + random.below(copies),
            _ => action.server,
        };
        let server = servers.get_mut(at)?;
        // Usually all steps up to the end of the work.
        let steps = if random.one_in(3) { 1 + random.below(9) } else { 60 };
        let fault = |is_done: bool, name: &'static str| is_done.then_some(name);
        match action.kind {
            Kind::Call => {
                for _ in 0..1 + random.below(4) {
                    server.call(cx, random, layouts);
                    if server.running.as_ref().is_some_and(|running| running.shared.is_wanted)
                        && !server.is_keeping()
                        && random.one_in(2)
                    {
                        server.keep(cx, steps, true);
                    }
                }
                None
            }
            Kind::Keep => {
                if let Some((to_us, _)) = server.must_raise {
                    let is_near = to_us <= server.clock_us(cx) + 86_400_000_000;
                    if is_near {
                        server.request(cx, Request::RaiseFloor(to_us));
                    }
                }
                let is_active = !random.one_in(4);
                server.keep(cx, steps, is_active);
                None
            }
            Kind::Work => {
                server.work(cx, random, registry, layouts, steps);
                None
            }
            Kind::Fetch => {
                let at = random.below(setup.segments());
                server.fetch(cx, random, registry, at, steps);
                None
            }
            Kind::TakeNumbers => {
                server.take_numbers(cx, random, random_segment(action));
                None
            }
            Kind::Flush => {
                let writes = random.below(server.disk.unflushed() + 1);
                server.disk.flush(writes);
                None
            }
            Kind::Receive => {
                if !server.disk.standby.is_away {
                    let writes = random.below(server.disk.standby.is_behind_by() + 1);
                    server.disk.standby.receive(writes);
                }
                None
            }
            Kind::Start => {
                server.start(cx);
                None
            }
            Kind::Create => {
                server.create_extension(cx);
                None
            }
            Kind::Connect => {
                server.is_cut = false;
                if registry.is_down && random.one_in(4) {
                    registry.restart(cx);
                }
                None
            }
            Kind::Crash => fault(server.crash(cx, random), "crash of a server"),
            Kind::CrashBackend => fault(server.crash_backend(cx, random), "crash of a backend"),
            Kind::KillKeeper => fault(server.kill_keeper(cx), "keeper exits unexpectedly"),
            Kind::TerminateKeeper => fault(server.stop(cx, Ending::Keeper), "keeper terminated"),
            Kind::KillWorker => fault(server.kill_worker(cx), "registry worker exits"),
            Kind::Stop => fault(server.stop(cx, Ending::Server), "clean stop"),
            Kind::BootHost => fault(server.boot_host(cx, random), "host booted"),
            Kind::ClockBack => {
                let longest_us = random.pick(&[1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000]);
                server.step_clock(cx, -random.between(1_000, longest_us));
                Some("clock set back")
            }
            Kind::ClockAhead => {
                let longest_us =
                    random.pick(&[1_000_000, 60_000_000, 60_000_000, 3_600_000_000, 30 * 86_400_000_000]);
                server.step_clock(cx, random.between(1_000, longest_us));
                Some("clock set ahead")
            }
            Kind::ClockNudge => {
                server.step_clock(cx, random.between(-5_000, 5_000));
                Some("clock nudged")
            }
            Kind::ClockRight => {
                let offset_us = -server.offset_us;
                server.step_clock(cx, offset_us);
                Some("clock set right")
            }
            Kind::StandbyAway => {
                let is_new = server.disk.kind != StandbyKind::None && !server.disk.standby.is_away;
                server.disk.standby.is_away = true;
                fault(is_new, "standby gone")
            }
            Kind::StandbyBack => {
                server.disk.standby.is_away = false;
                None
            }
            Kind::Promote => {
                let is_free = !registry.is_waiting_for(server.at);
                fault(is_free && server.promote(cx), "standby promoted")
            }
            Kind::Backup => {
                server.take_backup(cx);
                None
            }
            Kind::Restore => {
                let is_free = !registry.is_waiting_for(server.at);
                fault(is_free && server.restore(cx, random, layouts), "older disk restored")
            }
            Kind::Copy => {
                if count == setup.servers.len() + MOST_COPIES {
                    return None;
                }
                let mut copy = server.copy(cx, random, count)?;
                copy.start(cx);
                servers.push(copy);
                Some("copy of a server started")
            }
            Kind::Drop => {
                let is_dropped = server.drop_extension(cx);
                if is_dropped && random.one_in(2) {
                    server.create_extension(cx);
                }
                fault(is_dropped, "extension dropped")
            }
            Kind::EmptyHorizon => fault(server.empty(cx, true), "stored horizon emptied"),
            Kind::EmptyRecords => fault(server.empty(cx, false), "records emptied"),
            Kind::Settings => {
                server.max_ahead_us = random.pick(&[0, 1_000, 1_000_000, 2_000_000]);
                server.horizon_margin_us = random.pick(&[100_000, 3_000_000, 60_000_000]);
                let (ahead_us, margin_us) = (server.max_ahead_us, server.horizon_margin_us);
                server.say(cx, || {
                    format!("max_ahead is {}, horizon {} ahead", duration(ahead_us), duration(margin_us))
                });
                Some("settings changed")
            }
            Kind::SwitchWorker => {
                if server.is_leased || server.workers.is_empty() || server.must_raise.is_some() {
                    return None;
                }
                let worker = if random.one_in(6) { None } else { Some(random.pick(&server.workers)) };
                server.worker = worker;
                server.say(cx, || format!("its settings say worker ID {worker:?}"));
                Some("worker ID switched")
            }
            Kind::RaiseFloor => {
                let floor_us = server.clock_us(cx) + random.between(-1_000_000, 20_000_000);
                fault(server.request(cx, Request::RaiseFloor(floor_us)), "snowflake_raise_floor()")
            }
            Kind::Reset => {
                if server.is_leased {
                    return fault(server.request(cx, Request::Reset(None)), "snowflake_reset_horizon()");
                }
                if server.must_raise.is_some() {
                    return None;
                }
                // A worker ID that was used before is refused.
                let worker = match random.one_in(3) {
                    true => random.pick(&server.workers),
                    false => {
                        let worker = cx.fresh_worker()?;
                        server.workers.push(worker);
                        worker
                    }
                };
                let request = Request::Reset(Some(Identity { datacenter: 0, worker }));
                if !server.request(cx, request) {
                    return None;
                }
                if random.one_in(2) {
                    server.worker = Some(worker);
                }
                Some("snowflake_reset_horizon()")
            }
            Kind::AcceptClock => fault(server.request(cx, Request::AcceptClock), "snowflake_accept_clock()"),
            Kind::FailCommit => {
                server.is_commit_failing = true;
                None
            }
            Kind::Cut => {
                let is_new = server.is_leased && !server.is_cut;
                server.is_cut = true;
                server.say(cx, || "is cut off from the registry".into());
                fault(is_new, "server cut off from the registry")
            }
            Kind::RegistryDown => {
                let is_new = !registry.is_down;
                registry.is_down = true;
                cx.say("registry", || "is down".into());
                fault(is_new, "registry down")
            }
            Kind::RegistryRestart => {
                registry.restart(cx);
                Some("registry restarted")
            }
            Kind::RegistrySetBack => {
                if cx.is_evidence_lost {
                    return None;
                }
                let all = servers.iter().map(|server| server.at);
                let knowing = all.flat_map(|at| {
                    let numbers = (0..setup.segments()).map(Told::Numbers);
                    numbers.chain([Told::Lease]).map(move |told| (at, told))
                });
                let knowing = knowing.filter(|(at, told)| *told != Told::Lease || servers[*at].is_leased);
                let knowing = knowing.collect();
                fault(registry.set_back(cx, random, true, knowing), "registry set back silently")
            }
            Kind::RegistryFailover => {
                fault(registry.set_back(cx, random, false, vec![]), "registry fails over, and loses commits")
            }
            Kind::RegistryClock => {
                let widest_us = if setup.is_clock_wild { 86_400_000_000 } else { 20_000_000 };
                registry.offset_us = random.between(-widest_us, widest_us);
                let offset_us = registry.offset_us;
                cx.say("registry", || format!("its clock is {} off", duration(offset_us)));
                Some("registry's clock set")
            }
            Kind::RegistryKeep => {
                registry.keep();
                None
            }
            Kind::Revoke => fault(registry.revoke(cx, random), "lease revoked"),
            Kind::Freeze => fault(registry.freeze(cx, true), "registry frozen"),
            Kind::Unfreeze => fault(registry.freeze(cx, false), "registry unfrozen"),
            Kind::Resume => {
                let ends = cx.ledger.number_ends.clone();
                fault(registry.resume(cx, &ends), "segments resumed")
            }
            Kind::Stray => {
                if registry.is_down || registry.strays.is_empty() {
                    return None;
                }
                let call = registry.strays.swap_remove(random.below(registry.strays.len()));
                cx.say("registry", || format!("a late request of S{} arrives", call.server));
                registry.call(cx, &call, random);
                Some("late request executed")
            }
        }
    }

    /// Ends all faults. Then each server must get an ID.
    fn calm_down(&mut self) {
        let World { setup, cx, servers, registry } = self;
        cx.say("world", || "no more faults from here on".into());
        let mut random = Random::new(setup.seed ^ 0xca1a);
        let random = &mut random;
        registry.offset_us = 0;
        registry.restart(cx);
        registry.freeze(cx, false);
        registry.strays.clear();
        for server in servers.iter_mut() {
            let offset_us = server.offset_us;
            if offset_us != 0 {
                server.step_clock(cx, -offset_us);
            }
            server.is_cut = false;
            server.is_commit_failing = false;
            server.disk.standby.is_away = false;
            if !server.is_leased && server.worker.is_none() {
                server.worker = server.workers.first().copied();
            }
        }
        let leased = servers.iter().filter(|server| server.is_leased).count();
        // Worker IDs that fit all layouts, because any server may get them.
        let limits = setup.layouts.iter().map(|layout| 1usize << layout.bits(Field::Worker).min(31));
        let is_for_all = limits.min().unwrap_or(0).min(setup.workers as usize) >= leased;
        let mut waiting: Vec<usize> = (0..servers.len()).collect();
        let mut step_us = 100_000;
        for round in 0..2_000 {
            cx.now_us += step_us;
            // Clocks that were days ahead have left their horizons there.
            if round % 40 == 39 {
                step_us = (step_us * 2).min(43_200_000_000);
            }
            let ends = cx.ledger.number_ends.clone();
            registry.resume(cx, &ends);
            for server in servers.iter_mut() {
                let at = server.at;
                server.start(cx);
                server.create_extension(cx);
                server.disk.standby.receive(usize::MAX);
                server.work(cx, random, registry, &setup.layouts, 60);
                if let Some((to_us, _)) =
                    server.must_raise.filter(|(to_us, _)| *to_us <= cx.now_us + 86_400_000_000)
                {
                    server.request(cx, Request::RaiseFloor(to_us));
                }
                if round % 8 == 7 {
                    server.request(cx, Request::AcceptClock);
                }
                server.keep(cx, 60, true);
                server.keep(cx, 60, true);
                server.fetch(cx, random, registry, round % setup.segments(), 60);
                let before = cx.ledger.id_count;
                for _ in 0..6 {
                    server.call(cx, random, &setup.layouts);
                }
                if cx.failure.is_some() {
                    return;
                }
                if cx.ledger.id_count > before {
                    waiting.retain(|known| *known != at);
                }
            }
            // Some servers cannot be helped: there are fewer worker IDs than servers, or none that fits the layout.
            let is_helped = |at: &usize| {
                let server = &servers[*at];
                let layout = &setup.layouts[server.layout_at];
                let worker = layout.max(Field::Worker);
                !server.is_leased && server.worker.is_some_and(|known| u64::from(known) <= worker)
            };
            let stuck: Vec<_> = waiting
                .iter()
                .filter(|at| if servers[**at].is_leased { is_for_all } else { is_helped(at) })
                .collect();
            if stuck.is_empty() {
                return;
            }
            if round == 1_999 {
                let text = format!("S{} is stuck", stuck[0]);
                return cx.fail("every server gets an ID when faults have stopped", text);
            }
        }
    }
}

fn random_segment(action: &Action) -> usize {
    (action.entropy % SEGMENTS as u64) as usize
}
