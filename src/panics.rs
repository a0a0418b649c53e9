//! Where panics are told: in the log, and each place at most once in five seconds. One that is expected and caught says
//! nothing.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;
use std::thread;

use tracing::{dispatcher, error};

use crate::limiter;

thread_local! {
    /// This thread expects a panic.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Has panics go through the log from now on; where there is no log, to standard error as ever.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match EXPECTED.get() {
            true => {}
            false if dispatcher::has_been_set() => tell(info),
            false => usual(info),
        }));
    });
}

/// Calls what may panic at what a peer sent; `None` where it did. It must leave nothing half done.
pub fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    install();
    let before = EXPECTED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    EXPECTED.set(before);
    result.ok()
}

fn tell(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    // The limiter takes messages that differ in digits only for the same.
    let letters = |c: char| c.to_digit(10).map_or(c, |digit| char::from(b'a' + digit as u8));
    let key: String = place.chars().map(letters).collect();
    let Some(repeated) = limiter::admit(&format!("panic at {key}")) else { return };
    // What was put together at the time may hold the text of an event.
    let message = info.payload().downcast_ref::<&str>().copied().unwrap_or("panic");
    let thread = thread::current();
    let thread = thread.name().unwrap_or_default();
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => error!(thread, place, repeated, %backtrace, "{message}"),
        _ => error!(thread, place, repeated, "{message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_panic_is_caught_and_the_next_is_not_expected() {
        assert_eq!(caught(|| 7), Some(7));
        assert_eq!(caught(|| -> u8 { panic!("caught") }), None);
        // One within another.
        assert_eq!(caught(|| caught(|| -> u8 { panic!("caught") })), Some(None));
        assert!(!EXPECTED.get());
    }
}
