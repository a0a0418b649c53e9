//! What the server measured of itself: stage metrics and request metrics (contract.md section 3).

use super::json::Json;
use super::random::Random;
use super::render::Scene;
use super::response::Latencies;

const ORIGINS: &str = concat!(
    r#"{"ttft":"accepted native-append start to first non-empty text output","#,
    r#""ttfp":"accepted native-append start to first audio output"}"#
);

/// What a response put out so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Output {
    pub generated_ms: u64,
    pub packets: u64,
    pub tokens: u64,
}

/// Adds `vllm_omni`, where the session's server tells of it: a text stage, a stream stage, an audio stage.
pub(super) fn write(
    json: &mut Json,
    scene: &Scene<'_>,
    turn: u64,
    output: &Output,
    longest_itls: u64,
    random: &mut Random,
) {
    if !scene.character.server_metrics {
        return;
    }
    let &Output { generated_ms, packets, tokens } = output;
    let Latencies { ttft_us, ttfp_us, tpot_us } = scene.latencies;
    let engine_ttft_us = ttft_us * 7 / 10;
    json.open("vllm_omni").open("stage_metrics");
    json.open("0").number("stage_id", 0).text("final_output_type", "text");
    json.number("num_tokens_in", 60 + 40 * turn).number("num_tokens_out", tokens);
    json.millis("vllm_ttft_ms", engine_ttft_us).millis("vllm_tpot_ms", tpot_us);
    let itls = longest_itls.min(tokens.saturating_sub(1));
    json.millis_list("vllm_itls_ms", (0..itls).map(|_| random.between(tpot_us / 2, tpot_us * 3 / 2)));
    json.millis("stage_gen_time_ms", engine_ttft_us + tpot_us * tokens).close();
    json.open("1").number("stage_id", 1).text("output_unit_type", "stream");
    json.number("output_unit_count", packets).millis("serving_time_to_first_output_ms", ttft_us);
    json.millis("time_per_output_unit_ms", tpot_us / 2);
    json.millis_list("inter_output_latencies_ms", (1..packets.min(3)).map(|_| tpot_us / 2)).close();
    json.open("2").number("stage_id", 2).text("final_output_type", "audio");
    json.number("output_unit_count", packets).millis("serving_time_to_first_output_ms", ttfp_us * 9 / 10);
    json.number("audio_generated_frames", generated_ms * 24);
    json.seconds("audio_duration_s", generated_ms * 1_000).close().close();
    json.open("response_request_metrics").text("source", "server_monotonic_request_start");
    json.raw("measurement_origin", ORIGINS);
    json.millis("ttft_ms", ttft_us).millis("ttfp_ms", ttfp_us).close().close();
}
