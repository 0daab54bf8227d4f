//! The functions of `afterwrite dev`: Lambda's handlers in this process, and programs that replace or join them.

use std::path::PathBuf;
use std::time::Duration;

use afterwrite_datasets::compact::function::CompactorFunction;
use afterwrite_datasets::export::function::ExporterFunction;
use afterwrite_functions::{InvalidatorFunction, ProjectionHost};
use afterwrite_mapping::EventHandler;
use afterwrite_mapping::runtime::{FunctionPool, FunctionProgram};
use afterwrite_model::Result;
use afterwrite_services::config::{EnvironmentSettings, ProjectionKind};

use super::environment::program_variables;
use super::servers::DevServers;
use crate::hosted::HostedFunction;

pub(super) const AGGREGATOR: &str = "aggregator";
pub(super) const RELAY: &str = "relay";
pub(super) const EXPORTER: &str = "exporter";
pub(super) const COMPACTOR: &str = "compactor";
pub(super) const INVALIDATOR: &str = "invalidator";

/// A function.
pub(super) enum DevFunction {
    Projections(Box<HostedFunction<ProjectionHost>>),
    Exporter(Box<HostedFunction<ExporterFunction>>),
    Compactor(Box<HostedFunction<CompactorFunction>>),
    Invalidator(Box<HostedFunction<InvalidatorFunction>>),
    Program(FunctionPool),
}

impl EventHandler for DevFunction {
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        match self {
            Self::Projections(hosted) => Box::pin(hosted.handle(event, remaining)).await,
            Self::Exporter(hosted) => Box::pin(hosted.handle(event, remaining)).await,
            Self::Compactor(hosted) => Box::pin(hosted.handle(event, remaining)).await,
            Self::Invalidator(hosted) => Box::pin(hosted.handle(event, remaining)).await,
            Self::Program(pool) => Box::pin(pool.handle(event, remaining)).await,
        }
    }
}

/// All functions.
pub(super) struct FunctionSet {
    /// Those that read the tables' streams, by name.
    pub(super) streams: Vec<(String, DevFunction)>,
    pub(super) background: QueueFunctions,
}

/// The functions behind a queue or a timer.
pub(super) struct QueueFunctions {
    pub(super) exporter: DevFunction,
    pub(super) compactor: DevFunction,
    pub(super) invalidator: DevFunction,
}

impl FunctionSet {
    /// Starts the functions. A program replaces the function of its name, or is added as one more function.
    pub(super) async fn start(
        settings: &EnvironmentSettings,
        programs: &[(String, PathBuf)],
        servers: &DevServers,
    ) -> Result<Self> {
        let variables = program_variables(settings, &servers.program_endpoints());
        let mut pools = Vec::new();
        for (name, path) in programs {
            let program =
                FunctionProgram { name: name.clone(), path: path.clone(), variables: variables.clone() };
            pools.push((name.clone(), DevFunction::Program(FunctionPool::start(program).await?)));
        }
        let mut take = |name: &str| {
            let position = pools.iter().position(|(known, _)| known == name)?;
            Some(pools.remove(position).1)
        };
        let aggregator = match take(AGGREGATOR) {
            Some(program) => program,
            None => projections("aggregator", &[ProjectionKind::Aggregate], settings).await?,
        };
        let relay = match take(RELAY) {
            Some(program) => program,
            None => projections("relay", &ProjectionKind::OF_RELAY, settings).await?,
        };
        let exporter = match take(EXPORTER) {
            Some(program) => program,
            None => {
                let started = Box::pin(ExporterFunction::start(settings.clone())).await?;
                DevFunction::Exporter(Box::new(HostedFunction(started)))
            }
        };
        let compactor = match take(COMPACTOR) {
            Some(program) => program,
            None => {
                let started = Box::pin(CompactorFunction::start(settings.clone())).await?;
                DevFunction::Compactor(Box::new(HostedFunction(started)))
            }
        };
        let invalidator = match take(INVALIDATOR) {
            Some(program) => program,
            None => {
                let started = Box::pin(InvalidatorFunction::start(settings.clone())).await?;
                DevFunction::Invalidator(Box::new(HostedFunction(started)))
            }
        };
        let mut streams = vec![(AGGREGATOR.to_owned(), aggregator), (RELAY.to_owned(), relay)];
        streams.append(&mut pools);
        Ok(Self { streams, background: QueueFunctions { exporter, compactor, invalidator } })
    }
}

async fn projections(
    name: &'static str,
    kinds: &[ProjectionKind],
    settings: &EnvironmentSettings,
) -> Result<DevFunction> {
    let host = Box::pin(ProjectionHost::start(name, kinds, settings.clone())).await?;
    Ok(DevFunction::Projections(Box::new(HostedFunction(host))))
}
