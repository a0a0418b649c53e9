//! The adapters against the embedded broker.
