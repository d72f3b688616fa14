//! Run artefacts to terminal text, JSON and HTML.
//!
//! Every function here is a function of the [`RunResult`] alone, so a report can be written again from `run.json` at
//! any time. No figure is computed here that is not in `run.json`, but shares of two counts that are.

mod chart;
mod html;
mod number;
mod summary;
#[cfg(test)]
mod testkit;
mod wording;

use tpsctl_model::result::RunResult;

pub use html::html;
pub use summary::summary;

/// A report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The result has no JSON form.
    #[error("cannot write the result of run `{run_id}` as JSON")]
    Json {
        /// The run.
        run_id: String,
        /// What serde says.
        #[source]
        source: serde_json::Error,
    },
    /// The page's template could not be filled in.
    #[error("cannot fill in the report page of run `{run_id}`")]
    Page {
        /// The run.
        run_id: String,
        /// What askama says.
        #[source]
        source: askama::Error,
    },
}

/// `run.json`: indented, fields in the order of the schema, maps by key, a newline at the end.
pub fn json(result: &RunResult) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(result)
        .map_err(|source| ReportError::Json { run_id: result.run_id.clone(), source })?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::testkit;

    use super::*;

    #[test]
    fn run_json_reads_back_as_it_was_written() {
        for result in testkit::all() {
            let text = json(&result).unwrap();
            assert!(text.ends_with("}\n"));
            assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
        }
    }

    #[test]
    fn run_json_has_the_fields_of_its_schema() {
        let value: serde_json::Value = serde_json::from_str(&json(&testkit::done()).unwrap()).unwrap();
        assert_eq!(value["schema"], "tpsctl.run/1");
        assert_eq!(value["limited_by"], "missed_chunks");
        assert_eq!(value["knee"]["per_shard_low"], 1_530);
        let trial = &value["trials"][5];
        for field in [
            "rate_per_shard",
            "verdict",
            "cause",
            "intended",
            "sent",
            "unsent",
            "accepted",
            "included",
            "settled",
            "pending",
            "lost",
            "missed_chunk_slots",
            "chunk_slots",
            "block_time_ms",
            "send_lag_ms",
            "shards",
        ] {
            assert!(trial.get(field).is_some(), "{field} is missing");
        }
        assert_eq!(trial["verdict"], "fail");
        assert_eq!(trial["accepted"], serde_json::Value::Null);
        assert_eq!(trial["lost"]["pool_full"], 40);
    }
}
