//! Any bytes: the decoder says what they are and agrees with a full parse on whether they are an event.

#![no_main]

use duplex_collector::wire::{DeadLetterReason, Decoder};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|value: &[u8]| {
    let mut decoder = Decoder::new(1 << 20);
    let outcome = decoder.decode(value).map(|_| ()).map_err(|error| error.reason);
    // Stricter than the decoder, so it has a say only where it can read the text.
    match serde_json::from_slice::<Value>(value) {
        Ok(Value::Object(_)) => assert!(matches!(outcome, Ok(()) | Err(DeadLetterReason::TooDeep)), "{outcome:?}"),
        Ok(_) => {
            assert!(matches!(outcome, Err(DeadLetterReason::NotAnObject | DeadLetterReason::TooDeep)), "{outcome:?}");
        }
        Err(_) => {}
    }
});
