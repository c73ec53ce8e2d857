//! Clocks that are wrong.

use super::{Fault, Place};
use crate::scene::Scene;
use crate::site::SERVERS;

pub const FAULTS: &[Fault] = &[
    Fault::new(
        "the clock is set back",
        "the clock is set back further",
        Place::Server,
        &["SnowflakeIdClockSetBack", "SnowflakeIdNotReady"],
        the_clock_is_set_back,
    ),
    Fault::new(
        "the clock jumps ahead by an hour",
        "the clock jumps ahead by more than `max_clock_jump`",
        Place::Server,
        &["SnowflakeIdClockJumped"],
        |scene| {
            scene.cluster().set_clock(3600.0);
            scene.act("the clock is set ahead by an hour");
            let step = scene.alert("SnowflakeIdClockJumped").step_saying("*critical*");
            let steps = scene.site().pages.follow(&step, "The clock jumped ahead");
            let step = steps.step_saying("If the clock is wrong");
            scene.follow(&step, "If the clock is wrong, correct it", || scene.cluster().set_clock(0.0));
            scene.over();
        },
    ),
    Fault::new(
        "the clock differs from the registry's",
        "clocks of server and registry differ by more than `max_clock_offset`",
        Place::Server,
        &["SnowflakeIdClockOffset"],
        |scene| {
            scene.cluster().set_clock(8.0);
            scene.act("the clock is set ahead by 8 s");
            let step = scene.alert("SnowflakeIdClockOffset").step_saying("Correct the wrong clock");
            scene.follow(&step, "Correct the wrong clock", || scene.cluster().set_clock(0.0));
            scene.over();
        },
    ),
    Fault::new(
        "the registry's clock is wrong",
        "If all servers have this alert, the clock of the registry is wrong",
        Place::Registry,
        &["SnowflakeIdClockOffset"],
        |scene| {
            scene.site().registry().primary.set_clock(8.0);
            scene.act("the registry's clock is set ahead by 8 s");
            let runbook = scene.alert("SnowflakeIdClockOffset");
            runbook.step_saying("If all servers have this alert, the clock of the registry is wrong");
            let name = "SnowflakeIdClockOffset";
            let all =
                || scene.stage.watch.firing().iter().filter(|alert| alert.name == name).count() == SERVERS;
            scene.wait_until("the alert of all servers", all);
            let step = runbook.step_saying("Correct the wrong clock");
            scene.follow(&step, "Correct the wrong clock", || {
                scene.site().registry().primary.set_clock(0.0);
            });
            scene.over();
        },
    ),
];

fn the_clock_is_set_back(scene: &Scene) {
    // Further than the rule waits before it fires.
    let seconds = scene.stage.scale.of(60).as_secs_f64() + 30.0;
    scene.cluster().set_clock(-seconds);
    scene.act(format!("the clock is set back by {seconds} s"));
    scene.alert("SnowflakeIdClockSetBack").step_saying("The clock is behind");
    let row = scene.row_of("SnowflakeIdNotReady", "State of a server", "clock behind");
    scene.wait_for_status(scene.cluster(), "state = 'clock behind'");
    let steps = scene.site().pages.follow(&row, "The clock is behind");
    let step = steps.step_saying("If the clock is wrong");
    scene.follow(&step, "If the clock is wrong, correct it", || scene.cluster().set_clock(0.0));
    scene.over();
}
