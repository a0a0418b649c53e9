//! What is measured of sessions and responses, by name.

use super::samples::{ResponseView, RowMetrics, Source, StreamMetrics};

/// A measure that has a distribution for each run.
///
/// TTFT and TTFP of responses are kept apart by their source: a server that sends `response.created` and the first output
/// in one burst makes the client's values near 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Measure {
    StreamTtft,
    StreamTtfp,
    StreamRtf,
    /// As the reference reports it: the server's value where there is one, else the client's.
    ResponseTtft,
    ResponseTtfp,
    ServerTtft,
    ServerTtfp,
    ClientTtft,
    ClientTtfp,
    ResponseRtf,
    Tpot,
    /// The largest gap between two audio packets of a response.
    AudioGap,
}

impl Measure {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::StreamTtft,
        Self::StreamTtfp,
        Self::StreamRtf,
        Self::ResponseTtft,
        Self::ResponseTtfp,
        Self::ServerTtft,
        Self::ServerTtfp,
        Self::ClientTtft,
        Self::ClientTtfp,
        Self::ResponseRtf,
        Self::Tpot,
        Self::AudioGap,
    ];

    /// Those that the status page plots.
    pub const PLOTTED: [Self; 6] = [
        Self::StreamTtft,
        Self::StreamTtfp,
        Self::StreamRtf,
        Self::ResponseTtft,
        Self::ResponseTtfp,
        Self::ResponseRtf,
    ];

    /// Its place among [`Self::PLOTTED`].
    #[must_use]
    pub fn plotted(self) -> Option<usize> {
        Self::PLOTTED.iter().position(|measure| *measure == self)
    }

    /// The key in `/report`; the reference's where it has one (contract.md section 6).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StreamTtft => "duplex_stream_ttft_ms",
            Self::StreamTtfp => "duplex_stream_ttfp_ms",
            Self::StreamRtf => "duplex_stream_rtf",
            Self::ResponseTtft => "duplex_response_ttft_ms",
            Self::ResponseTtfp => "duplex_response_ttfp_ms",
            Self::ServerTtft => "duplex_server_ttft_ms",
            Self::ServerTtfp => "duplex_server_ttfp_ms",
            Self::ClientTtft => "duplex_client_ttft_ms",
            Self::ClientTtfp => "duplex_client_ttfp_ms",
            Self::ResponseRtf => "duplex_response_rtf",
            Self::Tpot => "duplex_response_tpot_ms",
            Self::AudioGap => "duplex_response_audio_gap_ms",
        }
    }

    /// Decimals of its summaries.
    #[must_use]
    pub fn digits(self) -> usize {
        if self.is_ratio() { 6 } else { 3 }
    }

    /// Whether it is a ratio; the others are milliseconds.
    #[must_use]
    pub fn is_ratio(self) -> bool {
        matches!(self, Self::StreamRtf | Self::ResponseRtf)
    }

    /// Its value in a session, where it is one of sessions and the session has it.
    pub(super) fn of_session(self, session: &StreamMetrics) -> Option<f64> {
        match self {
            Self::StreamTtft => session.stream_ttft_ms,
            Self::StreamTtfp => session.stream_ttfp_ms,
            Self::StreamRtf => session.stream_rtf,
            _ => None,
        }
    }

    /// Its value in a request row; `response` is what the bundle says of the row's response.
    pub(super) fn of_row(self, row: &RowMetrics<'_>, response: Option<&ResponseView<'_>>) -> Option<f64> {
        let is_server = |source: fn(&ResponseView<'_>) -> Option<Source>| match response {
            Some(response) => source(response) == Some(Source::Server),
            None => row.uses_server(),
        };
        match self {
            Self::ResponseTtft => row.ttft_ms,
            Self::ResponseTtfp => row.ttfp_ms,
            Self::ServerTtft => row.ttft_ms.filter(|_| is_server(|response| response.ttft_source)),
            Self::ServerTtfp => row.ttfp_ms.filter(|_| is_server(|response| response.ttfp_source)),
            Self::ClientTtft => row.client_ttft_ms,
            Self::ClientTtfp => row.client_ttfp_ms,
            Self::ResponseRtf => row.rtf,
            // As a session's: 0 is a stage that measured none (contract.md section 4).
            Self::Tpot => row.tpot_ms.filter(|ms| *ms > 0.0),
            Self::AudioGap => response.and_then(|response| response.max_audio_gap_ms),
            Self::StreamTtft | Self::StreamTtfp | Self::StreamRtf => None,
        }
    }
}
