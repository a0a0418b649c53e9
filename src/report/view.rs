//! A bundle as the run view reads it.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Deserializer};

use super::samples::{ResponseView, RowMetrics, StreamMetrics};
use crate::collector::EndReason;
use crate::time::Timestamp;

/// What is read of a bundle.
#[derive(Deserialize)]
pub struct BundleView<'a> {
    #[serde(borrow, default)]
    pub session_id: Cow<'a, str>,
    #[serde(borrow)]
    pub request_metrics: Vec<RowMetrics<'a>>,
    pub session_metrics: StreamMetrics,
    #[serde(borrow)]
    pub session: SessionView<'a>,
    /// Absent in bundles of earlier releases.
    #[serde(borrow, default)]
    pub responses: Vec<ResponseView<'a>>,
    #[serde(skip)]
    by_id: HashMap<String, usize>,
}

/// What is read of its session.
#[derive(Deserialize)]
pub struct SessionView<'a> {
    // Earlier releases wrote empty ones.
    #[serde(borrow, default, deserialize_with = "not_empty")]
    pub run_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "not_empty")]
    pub model: Option<Cow<'a, str>>,
    pub end_reason: EndReason,
    #[serde(borrow, default)]
    pub stream_start_source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub clock: Option<Cow<'a, str>>,
    #[serde(default)]
    pub events: u64,
    #[serde(default)]
    pub first_event_ms: Option<Timestamp>,
    #[serde(default)]
    pub last_event_ms: Option<Timestamp>,
    #[serde(default)]
    pub duration_ms: Option<f64>,
    #[serde(borrow, default)]
    pub errors: HashMap<Cow<'a, str>, u64>,
    #[serde(default)]
    pub truncated: bool,
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    Ok(Option::<Cow<'de, str>>::deserialize(deserializer)?.filter(|name| !name.is_empty()))
}

impl<'a> BundleView<'a> {
    /// Reads a record of the bundles topic; `None` where it is no bundle.
    pub fn parse(bundle: &'a [u8]) -> Option<Self> {
        let mut view: Self = serde_json::from_slice(bundle).ok()?;
        view.by_id =
            view.responses.iter().zip(0..).map(|(response, at)| (response.response_id.to_string(), at)).collect();
        Some(view)
    }

    /// The facts of a row's response.
    pub fn response_of(&self, row: &RowMetrics<'_>) -> Option<&ResponseView<'a>> {
        let at = self.by_id.get(row.response_id.as_deref()?)?;
        self.responses.get(*at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_in_a_bundle_of_an_earlier_release_is_none() {
        let named = |name: &str| {
            let session = format!(r#"{{"run_id":"{name}","model":"{name}","end_reason":"closed"}}"#);
            let bundle = format!(r#"{{"request_metrics":[],"session_metrics":{{}},"session":{session}}}"#);
            let view = BundleView::parse(bundle.as_bytes()).expect("a bundle");
            [view.session.run_id, view.session.model].map(|name| name.map(Cow::into_owned))
        };
        assert_eq!(named(""), [None, None]);
        assert_eq!(named("m"), [Some("m".to_owned()), Some("m".to_owned())]);
    }
}
