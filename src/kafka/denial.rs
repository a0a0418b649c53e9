//! A permission that a reader lacks. librdkafka tells so once and goes on trying, in silence.

use std::time::Duration;

use super::client::Deadline;
use crate::worker::BrokerError;

/// How often it is told again.
const AGAIN: Duration = Duration::from_secs(5);

/// The last denial, until something was read.
#[derive(Debug, Default)]
pub(super) struct Denial(Option<(BrokerError, Deadline)>);

impl Denial {
    /// Keeps an error that is a denial, and gives it back.
    pub(super) fn note(&mut self, error: BrokerError) -> BrokerError {
        if matches!(error, BrokerError::Denied(_)) {
            self.0 = Some((error.clone(), Deadline::after(AGAIN)));
        }
        error
    }

    /// Something was read.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// # Errors
    /// The denial that stands, now and then.
    pub(super) fn repeated(&mut self) -> Result<(), BrokerError> {
        match &mut self.0 {
            Some((error, again)) if again.passed() => {
                *again = Deadline::after(AGAIN);
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}
