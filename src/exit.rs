//! Exit codes, and the errors that carry them.

use std::process::ExitCode;

/// Why a command failed, and the code it exits with.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub error: anyhow::Error,
}

/// Documented exit codes; 0 is done, 2, wrong usage, is the argument parser's own, and 143 is a forced shutdown's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Anything that has no code of its own.
    Failed = 1,
    /// An input file can't be read as what it should be.
    BadInput = 65,
    /// No broker answers, or for `top` no service.
    BrokerUnavailable = 69,
    /// The changelog's state is missing, incomplete, of another offset or of a newer release.
    StateUnusable = 72,
    /// Records were deleted from the broker before they were read.
    RecordsLost = 74,
    /// A restore waits for a transaction that nobody ends.
    RestoreStalled = 75,
    /// The configuration, or the topics it names, can't work.
    BadConfiguration = 78,
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Code {
    /// A failure with this code.
    pub fn because(self, error: impl Into<anyhow::Error>) -> Failure {
        Failure { code: self, error: error.into() }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Code::Failed.because(error)
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}
