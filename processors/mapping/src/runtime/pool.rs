//! The processes of a function: as many as there are invocations at once.

use std::time::Duration;

use afterwrite_model::{ErrorKind, Result};
use tokio::sync::Mutex;

use super::instance::FunctionInstance;
use super::program::FunctionProgram;
use crate::handler::EventHandler;

/// A function in processes of its own. Dropping it kills them.
pub struct FunctionPool {
    program: FunctionProgram,
    idle: Mutex<Vec<FunctionInstance>>,
}

impl FunctionPool {
    /// A function whose first process starts with the first invocation.
    #[must_use]
    pub fn new(program: FunctionProgram) -> Self {
        Self { program, idle: Mutex::default() }
    }

    /// Starts the first process now.
    ///
    /// # Errors
    /// `Configuration` if the program cannot be started.
    pub async fn start(program: FunctionProgram) -> Result<Self> {
        let first = FunctionInstance::start(&program).await?;
        Ok(Self { program, idle: Mutex::new(vec![first]) })
    }

    /// An idle process, or a new one.
    async fn take(&self) -> Result<FunctionInstance> {
        while let Some(mut instance) = self.idle.lock().await.pop() {
            if instance.is_running() {
                return Ok(instance);
            }
        }
        FunctionInstance::start(&self.program).await
    }
}

impl EventHandler for FunctionPool {
    /// If this future is dropped, the process that handles the event is killed.
    async fn handle(&self, event: Vec<u8>, remaining: Duration) -> Result<Vec<u8>> {
        let mut instance = self.take().await?;
        let handled = instance.invoke(event, remaining).await;
        let is_gone = handled.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
        if !is_gone {
            self.idle.lock().await.push(instance);
        }
        handled
    }
}
