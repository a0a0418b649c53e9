//! The server's own request metrics (contract.md section 3).

use jiter::JiterResult;
use serde::{Deserialize, Serialize};

use super::json::{Raw, Reader};
use super::scalar::Scalar;
use super::text::{cut, unescape};

/// What is used of a `response_request_metrics` object; `None` where a key is absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RequestMetrics {
    pub ttft_ms: Option<Scalar>,
    pub ttfp_ms: Option<Scalar>,
    pub measurement_origin: Option<Origin>,
}

/// The server's texts for what its values measure.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Origin {
    pub ttft: Option<String>,
    pub ttfp: Option<String>,
}

impl RequestMetrics {
    /// Reads a `response_request_metrics` object that was found in an event; texts are cut to `text_bytes`.
    #[must_use]
    pub fn read(json: &[u8], text_bytes: usize) -> Self {
        let mut metrics = Self::default();
        // The event's own reading has accepted this text already, so it can't fail; what was read stays.
        let _ = Reader::new(json).object(|reader, key| {
            match &*key {
                "ttft_ms" => metrics.ttft_ms = Some(Scalar::read(reader.value()?)),
                "ttfp_ms" => metrics.ttfp_ms = Some(Scalar::read(reader.value()?)),
                "measurement_origin" => metrics.measurement_origin = Some(Origin::read(reader, text_bytes)?),
                _ => drop(reader.value()?),
            }
            Ok(())
        });
        metrics
    }

    /// Bytes that it takes beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.measurement_origin.as_ref().map_or(0, Origin::heap_bytes)
    }
}

impl Origin {
    /// Bytes that it takes beside itself.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        [&self.ttft, &self.ttfp].into_iter().flatten().map(String::len).sum()
    }

    fn read(reader: &mut Reader<'_>, text_bytes: usize) -> JiterResult<Self> {
        let mut origin = Self::default();
        reader.object(|reader, key| {
            let text = match reader.value()? {
                Raw::String(text) => Some(cut(&unescape(text), text_bytes).0.to_owned()),
                _ => None,
            };
            match &*key {
                "ttft" => origin.ttft = text,
                "ttfp" => origin.ttfp = text,
                _ => {}
            }
            Ok(())
        })?;
        Ok(origin)
    }
}
