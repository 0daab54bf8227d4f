//! The deployed names of a model's tables: `AFTERWRITE_TABLES`.

use std::sync::Arc;

use afterwrite_model::Result;
use afterwrite_model::table::Model;

use super::{TABLES, invalid};

/// Resolves `AFTERWRITE_TABLES`: the deployed name of each table, which is the first given name, or the name in the model. All further names go
/// to [`Table::former_names`](afterwrite_model::table::Table::former_names). The state table, where its rollups are sources, is `state`; the names of
/// `@state` in `AFTERWRITE_TABLES` are its earlier names.
pub(super) fn deployed_names(model: &mut Model, renames: &str, state: Option<&str>) -> Result<Vec<Arc<str>>> {
    let mut deployed: Vec<Vec<Arc<str>>> = model.tables.iter().map(|_| Vec::new()).collect();
    if let Some(names) = model.state_source().and_then(|table| deployed.get_mut(table)) {
        // A function that reads no stream of it need not know its name.
        names.push(Arc::from(state.unwrap_or(afterwrite_model::table::STATE_TABLE)));
    }
    for rename in renames.split(',').map(str::trim).filter(|rename| !rename.is_empty()) {
        let parts = rename.split_once('=').map(|(name, written)| (name.trim(), written.trim()));
        let Some((name, written)) = parts.filter(|(_, written)| !written.is_empty()) else {
            return Err(invalid(format!("{TABLES} holds `{rename}`, which is not a rename"))
                .hint("Write `name in the model=deployed name`, separated by commas"));
        };
        // The state table's present name is a setting of its own; it may be named first, as that of any table.
        let names = model.tables.iter().zip(&mut deployed).find(|(table, _)| *table.name == *name);
        let Some((table, names)) = names else {
            let declared = model.tables.iter().filter(|table| !table.is_state());
            let known: Vec<&str> = declared.map(|table| table.name.as_ref()).collect();
            return Err(invalid(format!("{TABLES} renames `{name}`, which is not a table of the model"))
                .with("tables of the model", known.join(", ")));
        };
        if table.is_state() && names.first().is_some_and(|present| **present == *written) {
            continue;
        }
        if names.iter().any(|known| **known == *written) {
            return Err(invalid(format!("{TABLES} has `{rename}` twice")).hint("Remove one of the two"));
        }
        check_name(written, &format!("{TABLES} renames `{name}` to"))?;
        names.push(Arc::from(written));
    }
    for (table, names) in model.tables.iter().zip(&mut deployed).filter(|(_, names)| names.is_empty()) {
        names.push(Arc::clone(&table.name));
    }
    check_distinct(model, &deployed)?;
    let mut current = Vec::with_capacity(deployed.len());
    for (table, names) in model.tables.iter_mut().zip(deployed) {
        let mut names = names.into_iter();
        current.extend(names.next());
        table.former_names = names.collect();
    }
    Ok(current)
}

/// Checks that a table of DynamoDB can have this name. `named` says where the name stands.
pub(super) fn check_name(name: &str, named: &str) -> Result<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (3..=255).contains(&name.len()) && name.bytes().all(is_allowed) {
        return Ok(());
    }
    let hint = if name.starts_with("arn:") {
        "Write the name of the table: the part after `table/` in its ARN".to_owned()
    } else {
        format!("Write renames in {TABLES} as `name in the model=deployed name`, separated by commas")
    };
    let rule =
        "which no table of DynamoDB can have as its name: 3 to 255 of the characters a-z A-Z 0-9 _ - .";
    Err(invalid(format!("{named} `{name}`, {rule}")).hint(hint))
}

/// Two tables of one name would be counted by the entities of the first.
fn check_distinct(model: &Model, deployed: &[Vec<Arc<str>>]) -> Result<()> {
    for (index, (table, names)) in model.tables.iter().zip(deployed).enumerate() {
        for (other, others) in model.tables.iter().zip(deployed).skip(index + 1) {
            if let Some(name) = names.iter().find(|name| others.contains(name)) {
                let message = format!("the tables `{}` and `{}` have the same name", table.name, other.name);
                return Err(invalid(message)
                    .with("name", &**name)
                    .hint(format!("Each table of the model needs a table of its own: correct {TABLES}")));
            }
        }
    }
    Ok(())
}
