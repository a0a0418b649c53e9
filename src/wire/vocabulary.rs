//! The names of the protocol that become label values: what is not among them counts as [`OTHER`].

/// Stands for a name that the protocol does not know, or that an event does not tell.
pub const OTHER: &str = "other";

/// Actions of `overlap.decision`.
pub const OVERLAP_ACTIONS: [&str; 3] = ["barge_in", "drop", "listen"];

/// Codes of `error` events: vLLM-Omni's, the `type`s that stand in for a missing code, and common ones of OpenAI's
/// Realtime API; sorted.
pub const ERROR_CODES: [&str; 70] = [
    "bad_audio",
    "bad_event",
    "commit_aborted",
    "config_timeout",
    "context_input_unsupported",
    "context_not_initialized",
    "context_operation_failed",
    "context_output_failed",
    "duplicate_function_call",
    "duplicate_function_call_output",
    "engine_error",
    "event_too_large",
    "input_audio_buffer_commit_empty",
    "input_audio_buffer_empty",
    "input_backpressure",
    "instructions_update_unsupported",
    "internal_error",
    "invalid_context_input",
    "invalid_duplex_runtime_config",
    "invalid_function_call",
    "invalid_function_call_output",
    "invalid_input_modality",
    "invalid_json",
    "invalid_request_error",
    "invalid_tools",
    "invalid_video_frames",
    "item_not_found",
    "late_function_call_output",
    "missing_item_id",
    "model_update_unsupported",
    "native_text_append_unsupported",
    "output_backpressure",
    "persona_update_unsupported",
    "playback_ack_too_late",
    "playback_item_mismatch",
    "playback_item_not_found",
    "rate_limit_error",
    "rate_limit_exceeded",
    "ref_audio_required",
    "ref_audio_update_unsupported",
    "resource_exhausted",
    "response_already_active",
    "response_create_without_input",
    "response_not_active",
    "runtime_abort_failed",
    "runtime_append_failed",
    "runtime_append_task_failed",
    "runtime_data_plane_stream_failed",
    "runtime_data_plane_text_without_audio",
    "runtime_input_failed",
    "runtime_signal_failed",
    "runtime_touch_failed",
    "semantic_vad_unavailable",
    "server_error",
    "server_vad_unavailable",
    "session_closed",
    "session_exists",
    "session_expired",
    "stale_function_call_output",
    "text_only_turn_unsupported",
    "unknown_event",
    "unknown_function_call",
    "unknown_session",
    "unsupported_audio_format",
    "unsupported_native_response_options",
    "unsupported_nemotron_duplex_mode",
    "unsupported_ref_audio_path",
    "unsupported_turn_detection",
    "voice_update_after_audio_unsupported",
    "voice_update_unsupported",
];

/// The label value of an overlap decision's action.
#[must_use]
pub fn overlap_action(name: &str) -> &'static str {
    known(&OVERLAP_ACTIONS, name)
}

/// The label value of an error's code.
#[must_use]
pub fn error_code(name: &str) -> &'static str {
    known(&ERROR_CODES, name)
}

fn known(names: &[&'static str], name: &str) -> &'static str {
    names.binary_search(&name).map_or(OTHER, |at| names[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_any_other_is_other() {
        for name in ERROR_CODES {
            assert_eq!(error_code(name), name);
        }
        for name in OVERLAP_ACTIONS {
            assert_eq!(overlap_action(name), name);
        }
        for name in ["", "other", "Server_Error", "barge_in", "server_error\n"] {
            assert_eq!(error_code(name), OTHER, "{name:?}");
        }
        assert_eq!(overlap_action("server_error"), OTHER);
    }
}
