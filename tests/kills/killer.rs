//! `kill -9` of a program that this process has started.

use std::fs;
use std::process::Command;

/// Kills a child of this process: a function's program, or `afterwrite` with this command. Returns whether one was alive.
pub(crate) fn kill_one(victim: &str) -> bool {
    let Some(process) = children().into_iter().find(|child| child.is(victim)) else { return false };
    // It may have ended in between; it stays a zombie of this process until it is waited for, so its id has no other owner.
    Command::new("kill").arg("-9").arg(process.id.to_string()).status().unwrap().success()
}

struct ChildProcess {
    id: u32,
    arguments: Vec<String>,
}

impl ChildProcess {
    fn is(&self, victim: &str) -> bool {
        let name = self.arguments.first().and_then(|path| path.rsplit('/').next());
        match name {
            Some("afterwrite") => self.arguments.get(1).is_some_and(|command| command == victim),
            name => name == Some(victim),
        }
    }
}

/// The living children of this process.
fn children() -> Vec<ChildProcess> {
    let this = std::process::id();
    let processes =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let child = |id: u32| {
        let status = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in parentheses may contain spaces; state and parent follow it.
        let mut fields = status.rsplit_once(')')?.1.split_whitespace();
        let (state, parent) = (fields.next()?, fields.next()?);
        if parent != this.to_string() || state == "Z" {
            return None;
        }
        let command = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        Some(ChildProcess { id, arguments: command.split('\0').map(str::to_owned).collect() })
    };
    processes.filter_map(child).collect()
}
