//! `afterwrite record`: change records as JSON lines, without secrets.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use afterwrite_model::harmless::harmless_lines;
use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_preview::recording::RecordCutter;
use clap::Args;

use crate::feed::RecordFeed;
use crate::inputs::InputArguments;
use crate::model_option::ModelOption;
use crate::print::{is_written, tell};
use crate::streams::{RollupChanges, StreamArguments};

/// The arguments of `afterwrite record`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  afterwrite record s3://my-bucket/archive/dt=2026-02-06/ --out day.jsonl\n  afterwrite record event.json failed/ --from 2026-02-06T10:00:00Z\n  afterwrite record --stream --limit 1000 --out recording.jsonl\n  afterwrite record --stream --from 2026-02-06T10:00:00Z --out recording.jsonl\n\nThe secret attributes of the model are removed, as in the archive. `afterwrite replay` and `afterwrite tail --file` read the lines.\n\nExit codes: 0 success, 1 some texts are not change records, 2 wrong usage or configuration, 3 the command could not finish."
)]
pub struct RecordArguments {
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    stream: StreamArguments,
    /// Record the streams of the model's tables, until Ctrl-C or the limit. They begin at --from, if it is one of the last 24 hours.
    #[arg(help_heading = "Stream", long = "stream", conflicts_with = "inputs")]
    is_stream: bool,
    /// Stop after this many records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Write to this file; default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    model: ModelOption,
}

/// The result of a recording.
#[derive(Default)]
struct RecordingTotals {
    records: u64,
    rejected: u64,
}

impl RecordArguments {
    /// Writes the lines; returns whether every text was a change record.
    ///
    /// # Errors
    /// A setting that is missing or wrong; an input, a stream or the output that fails.
    pub async fn run(&self) -> Result<bool> {
        let config = self.model.config()?;
        let mut feed = if self.is_stream {
            RecordFeed::of_streams(
                Box::pin(self.stream.open(&config, RollupChanges::Named, self.inputs.range().from)).await?,
                self.inputs.range(),
            )
        } else if self.inputs.inputs.is_empty() {
            return Err(Error::new(ErrorKind::Configuration, "the command names no input")
                .hint("Name files, folders, s3://BUCKET/PREFIX or -, or add --stream"));
        } else {
            RecordFeed::of_inputs(Box::pin(self.inputs.objects()).await?, self.inputs.range())
        };
        let cutter = RecordCutter::new(config.model, config.table_names);
        let mut output = self.output()?;
        let mut totals = RecordingTotals::default();
        while self.limit.is_none_or(|limit| totals.records < limit) {
            let Some(next) = Box::pin(feed.next()).await? else { break };
            let line = match next {
                Ok(record) => cutter.line(&record),
                Err((name, rejected)) => {
                    totals.rejected += 1;
                    tell(&format!("{name}, line {}: {}", rejected.line, rejected.reason));
                    continue;
                }
            };
            match line {
                Ok(line) if is_written(self.write(&mut output, &line))? => totals.records += 1,
                Ok(_) => return Ok(true),
                Err(error) => {
                    totals.rejected += 1;
                    eprintln!("afterwrite: {}", error.report());
                }
            }
        }
        is_written(output.flush())?;
        eprintln!("{} records written, {} texts rejected", totals.records, totals.rejected);
        Ok(totals.rejected == 0)
    }

    /// A file has the lines as the archive does. Standard output may be a terminal: the characters that it would obey are escapes of JSON.
    fn write(&self, output: &mut dyn Write, line: &str) -> std::io::Result<()> {
        match self.out {
            Some(_) => output.write_all(line.as_bytes()),
            None => output.write_all(harmless_lines(line).as_bytes()),
        }
    }

    fn output(&self) -> Result<Box<dyn Write>> {
        let Some(path) = &self.out else { return Ok(Box::new(BufWriter::new(std::io::stdout()))) };
        let file = File::create(path).map_err(|error| {
            Error::new(ErrorKind::Configuration, "the output file cannot be created")
                .with("file", path.display().to_string())
                .caused_by(error)
        })?;
        Ok(Box::new(BufWriter::new(file)))
    }
}
