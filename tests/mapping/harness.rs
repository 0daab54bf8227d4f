//! A mapping of a simulated stream to a scripted function.

use std::sync::Mutex;
use std::time::Duration;

use afterwrite_mapping::{
    EventHandler, EventSourceMapping, FailureDestination, FaultSwitch, GapPolicy, MappingControl,
    MappingCounts, MappingEnd, MappingOptions, MappingProgress, MappingSettings, MemoryCheckpoints,
    SkippedRecord,
};
use afterwrite_memory::MemoryObjects;
use afterwrite_model::record::Timestamp;
use afterwrite_model::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use uuid::Uuid;

use super::simulated_stream::{PausedClock, SimulatedStream};

/// The function's treatment of a batch: number of the delivery, sequence numbers → response.
pub(crate) type Script<'s> = dyn Fn(usize, &[String]) -> Result<Value> + Sync + 's;

/// A function that notes each delivery.
pub(crate) struct ScriptedFunction<'s> {
    clock: PausedClock,
    script: &'s Script<'s>,
    deliveries: Mutex<Vec<(Timestamp, Vec<String>)>>,
    /// How long an invocation takes.
    duration: Duration,
}

impl EventHandler for ScriptedFunction<'_> {
    async fn handle(&self, event: Vec<u8>, _remaining: Duration) -> Result<Vec<u8>> {
        let event: Value = serde_json::from_slice(&event).unwrap();
        let number = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned();
        let numbers: Vec<String> = event["Records"].as_array().unwrap().iter().map(number).collect();
        let delivery = {
            use afterwrite_model::clock::Clock as _;
            let mut deliveries = self.deliveries.lock().unwrap();
            deliveries.push((self.clock.now(), numbers.clone()));
            deliveries.len()
        };
        tokio::time::sleep(self.duration).await;
        (self.script)(delivery, &numbers).map(|response| response.to_string().into_bytes())
    }
}

/// A run of a mapping.
pub(crate) struct MappingRun<'s> {
    pub(crate) stream: &'s SimulatedStream,
    pub(crate) settings: MappingSettings,
    pub(crate) script: &'s Script<'s>,
    pub(crate) checkpoints: MemoryCheckpoints,
    pub(crate) faults: FaultSwitch,
    pub(crate) gaps: GapPolicy,
    pub(crate) bucket: MemoryObjects,
    pub(crate) duration: Duration,
    pub(crate) progress: MappingProgress,
}

/// The outcome of a run.
pub(crate) struct RunOutcome {
    pub(crate) end: Result<MappingEnd>,
    pub(crate) deliveries: Vec<(Timestamp, Vec<String>)>,
    pub(crate) counts: MappingCounts,
    pub(crate) skipped: Vec<SkippedRecord>,
}

impl RunOutcome {
    /// The deliveries, each as its sequence numbers.
    pub(crate) fn batches(&self) -> Vec<String> {
        self.deliveries.iter().map(|(_, numbers)| numbers.join(" ")).collect()
    }

    /// All delivered sequence numbers, in order.
    pub(crate) fn numbers(&self) -> Vec<String> {
        self.deliveries.iter().flat_map(|(_, numbers)| numbers.clone()).collect()
    }
}

impl<'s> MappingRun<'s> {
    /// A run whose function accepts everything, with these settings of `CreateEventSourceMapping`.
    pub(crate) fn new(stream: &'s SimulatedStream, settings: Value) -> Self {
        Self {
            stream,
            settings: MappingSettings::from_json(&settings.to_string()).unwrap(),
            script: &accept,
            checkpoints: MemoryCheckpoints::default(),
            faults: FaultSwitch::default(),
            gaps: GapPolicy::default(),
            bucket: MemoryObjects::default(),
            duration: Duration::ZERO,
            progress: MappingProgress::default(),
        }
    }

    pub(crate) fn script(mut self, script: &'s Script<'s>) -> Self {
        self.script = script;
        self
    }

    /// Delivers everything that is in the stream.
    pub(crate) async fn drain(&self) -> RunOutcome {
        self.run(&MappingControl::draining(), async {}).await
    }

    /// Delivers while `meanwhile` runs, and then what is left.
    pub(crate) async fn while_running(&self, meanwhile: impl Future<Output = ()>) -> RunOutcome {
        let control = MappingControl::default();
        let then_drain = async {
            meanwhile.await;
            control.drain();
        };
        self.run(&control, then_drain).await
    }

    pub(crate) async fn run(
        &self,
        control: &MappingControl,
        meanwhile: impl Future<Output = ()>,
    ) -> RunOutcome {
        let function = ScriptedFunction {
            clock: self.stream.clock,
            script: self.script,
            deliveries: Mutex::default(),
            duration: self.duration,
        };
        let progress = &self.progress;
        let options = MappingOptions {
            id: Uuid::from_u128(7),
            faults: self.faults.clone(),
            gaps: self.gaps,
            on_failure: self
                .settings
                .on_failure_bucket
                .as_ref()
                .map(|_| &self.bucket as &dyn FailureDestination),
            ..MappingOptions::new(progress, &self.checkpoints)
        };
        let clock = self.stream.clock;
        let mapping = EventSourceMapping::new(self.stream, &function, &clock, &self.settings, options);
        let (end, ()) = tokio::join!(mapping.run(control), meanwhile);
        RunOutcome {
            end,
            deliveries: function.deliveries.into_inner().unwrap(),
            counts: progress.counts(),
            skipped: progress.skipped(),
        }
    }
}

pub(crate) fn accept(_delivery: usize, _numbers: &[String]) -> Result<Value> {
    Ok(failures(&[]))
}

/// A partial response that names these records.
pub(crate) fn failures(numbers: &[&str]) -> Value {
    let failures: Vec<Value> = numbers.iter().map(|number| json!({ "itemIdentifier": number })).collect();
    json!({ "batchItemFailures": failures })
}

/// An error of the function.
pub(crate) fn function_error() -> Error {
    Error::new(ErrorKind::State, "the function failed")
}

/// A script whose function fails as a whole while a batch contains this record.
pub(crate) fn fails_with(poison: &'static str) -> impl Fn(usize, &[String]) -> Result<Value> + Sync {
    move |_, numbers| {
        if numbers.iter().any(|number| number == poison) { Err(function_error()) } else { Ok(failures(&[])) }
    }
}
