//! What sets one session apart from the next, drawn once when it starts.

use super::profile::Profile;
use super::random::Random;

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Closed,
    Expired,
    /// No event tells of the end.
    Abandoned,
}

/// The nature of one session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Character {
    pub turns: u32,
    pub ending: Ending,
    pub listens_only: bool,
    pub hangs_up: bool,
    pub slow: bool,
    pub server_metrics: bool,
    /// The turn, from 0, in which the connection is lost.
    pub reconnect_turn: Option<u32>,
    /// What the client's monotonic clock showed when the traffic started; `None` where it is not on the wire.
    pub clock_offset_us: Option<u64>,
    /// Duration of one input packet.
    pub append_ms: u64,
}

impl Character {
    pub(super) fn draw(profile: &Profile, random: &mut Random) -> Self {
        let turns = random.between((*profile.turns.start()).into(), (*profile.turns.end()).into());
        let turns = u32::try_from(turns).expect("both bounds are 32 bits wide");
        let (abandoned, expired) = (random.chance(profile.abandoned), random.chance(profile.expired));
        let reconnect_turn = random.between(0, u64::from(turns.saturating_sub(1)));
        let clock_offset_us = random.between(60_000_000, 90_000_000_000);
        let (shortest_ms, longest_ms) = profile.packet_bounds_ms();
        Self {
            turns,
            ending: match (abandoned, expired) {
                (true, _) => Ending::Abandoned,
                (false, true) => Ending::Expired,
                (false, false) => Ending::Closed,
            },
            listens_only: random.chance(profile.listens_only),
            hangs_up: random.chance(profile.hang_ups),
            slow: random.chance(profile.slow),
            server_metrics: random.chance(profile.server_metrics),
            reconnect_turn: random.chance(profile.reconnects).then(|| u32::try_from(reconnect_turn).unwrap_or(0)),
            clock_offset_us: random.chance(profile.client_clock).then_some(clock_offset_us),
            append_ms: random.between(shortest_ms, longest_ms),
        }
    }
}
