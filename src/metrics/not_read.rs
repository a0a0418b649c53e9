//! Says in the log that a topic carries what is known and not read.

use tracing::warn;

use crate::limiter;
use crate::task::Counts;

/// Warns of each such shape among committed events; of the same one again after a while only.
pub(super) fn warn_of(counts: &Counts) {
    for (shape, events) in counts.unsupported() {
        if let Some(withheld) = limiter::admit(shape.as_str()) {
            warn!(
                shape = shape.as_str(),
                events,
                withheld,
                "events of a shape that is not read: they give no figures; write the event itself as the value (README, What a \
                 producer must send)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::task::Outcome;
    use crate::wire::{EventClass, Unsupported};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_shape_is_said_once_with_its_count() {
        let events = [
            ((EventClass::Audio, Outcome::Accepted), 9),
            ((EventClass::Unsupported(Unsupported::NovaSonic), Outcome::Accepted), 5),
            ((EventClass::Unsupported(Unsupported::NovaSonic), Outcome::Late), 2),
        ];
        let counts = Counts { events: events.into(), ..Counts::default() };
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            warn_of(&counts);
            warn_of(&counts);
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(r#"shape="Amazon Nova Sonic" events=7"#), "{text}");
    }
}
