//! The console inside `afterwrite dev`.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use afterwrite_console::board::DevBoard;
use afterwrite_console::{
    CommandLine, Console, ConsoleContext, ConsoleOptions, ConsolePlace, RunningConsole,
};
use afterwrite_model::Result;
use afterwrite_model::clock::SystemClock;
use afterwrite_operations::DeploymentContext;
use afterwrite_services::config::{EnvironmentSettings, FunctionConfig};
use afterwrite_services::dynamodb::DynamoDb;

use super::DevArguments;
use super::banner::UNSET;
use super::environment::client_variables;
use super::servers::{BUCKET, DevServers, STATE_TABLE};
use crate::console::this_program;

/// How far the console's port is from that of DynamoDB.
const PORT_OFFSET: u16 = 6;

/// The running console.
pub(super) struct DevConsole {
    pub(super) running: RunningConsole,
    /// The deployment that it shows.
    pub(super) deployment: DeploymentContext<Arc<DynamoDb>, SystemClock>,
}

impl DevConsole {
    /// Starts the console. The tables are of this machine, so its buttons may write.
    pub(super) async fn start(
        arguments: &DevArguments,
        servers: &DevServers,
        (config, settings): (&FunctionConfig, &EnvironmentSettings),
        board: &Arc<DevBoard>,
    ) -> Result<Self> {
        let client = servers.dynamodb.client();
        let context = ConsoleContext {
            config: config.clone(),
            state_table: Arc::from(STATE_TABLE),
            tables: Arc::new(DynamoDb::retrying(client.clone())),
            client,
            bucket: Some(servers.bucket()),
            bucket_name: Some(BUCKET.to_owned()),
            commands: CommandLine {
                program: this_program()?,
                deployment: Vec::new(),
                variables: client_variables(settings, servers),
                removed: UNSET.map(str::to_owned).to_vec(),
            },
            place: ConsolePlace::Dev(Arc::clone(board)),
            options: ConsoleOptions { shows_items: arguments.show_items, allows_writes: true },
        };
        let deployment = context.deployment();
        let port = if arguments.port == 0 { 0 } else { arguments.port + PORT_OFFSET };
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { running: Console::listen(context, listen, Vec::new()).await?.start(), deployment })
    }
}
