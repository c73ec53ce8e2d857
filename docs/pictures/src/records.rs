//! What pictures of real runs have in common.

/// Where they begin and end.
pub const LEFT: f64 = 12.0;
pub const RIGHT: f64 = 688.0;
/// Nothing for so many seconds is a gap.
const GAP: f64 = 0.4;

/// Labels of an axis of seconds.
pub fn labels(until: f64) -> Vec<(f64, String)> {
    let seconds = (0..).step_by(5).take_while(|&at| f64::from(at) <= until);
    seconds.map(|at| (at.into(), format!("{at} s"))).collect()
}

/// Points in parts, none of which has a gap.
pub fn parts(points: impl Iterator<Item = (f64, Option<f64>)>) -> Vec<Vec<(f64, f64)>> {
    let known: Vec<_> = points.filter_map(|(at, value)| Some((at, value?))).collect();
    known.chunk_by(|one, next| next.0 - one.0 < GAP).map(<[_]>::to_vec).collect()
}
