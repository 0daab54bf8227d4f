//! Reports items whose totals only the archive can confirm.

use afterwrite_model::Result;
use afterwrite_operations::jobs::JobTotals;
use afterwrite_operations::replay::DeliveryTotal;
use afterwrite_operations::{DROPPED_CONTRIBUTIONS, LifeTotal};
use afterwrite_services::config::{EnvironmentSettings, dynamodb_client};
use aws_sdk_dynamodb::types::TimeToLiveStatus;

use crate::deployment::Deployment;
use crate::print::tell;
use crate::time_to_live::time_to_live;

/// The command that counts rollups of rollups.
pub(crate) const BACKFILL_LEVELS: &str = "afterwrite backfill --yes";
/// The total of the expiries that were not applied: see [`afterwrite_ledger::CommitTotals`].
const OLD_EXPIRIES: &str = "expiries_too_old";

/// Reports items that vanished without a record, items that a restore brought back, and items that the ledger follows in a later stream;
/// returns whether all totals are right, and stay so. Items of tables without TTL cannot have expired.
///
/// # Errors
/// The client of DynamoDB cannot be made.
pub(crate) async fn report_lives(deployment: &Deployment, totals: &JobTotals) -> Result<bool> {
    let (vanished, revived) = (totals.number(LifeTotal::Vanished), totals.number(LifeTotal::Revived));
    let mut are_right = true;
    if vanished > 0 {
        let may_expire = may_expire(deployment).await?;
        tell(&vanished_text(vanished, may_expire));
        are_right = !may_expire;
    }
    let expired = totals.number(LifeTotal::ExpiredSources);
    if expired > 0 {
        tell(&expired_sources_text(expired));
        are_right = false;
    }
    if revived > 0 {
        tell(&revived_text(revived));
        are_right = false;
    }
    let unknown = totals.number(LifeTotal::OfUnknownTable);
    if unknown > 0 {
        tell(&unknown_table_text(unknown));
        are_right = false;
    }
    let parked = totals.number(LifeTotal::ParkedExpiries);
    if parked > 0 {
        tell(&parked_expiries_text(parked));
        are_right = false;
    }
    let later = totals.number(LifeTotal::OfLaterStream);
    if later > 0 {
        tell(&later_stream_text(later));
        are_right = false;
    }
    Ok(are_right)
}

/// Reports the expiries that are too old to be settled; returns whether none is too old.
pub(crate) fn report_old_expiries(totals: &JobTotals) -> bool {
    let number = totals.number(OLD_EXPIRIES);
    if number > 0 {
        tell(&old_expiries_text(number));
    }
    number == 0
}

/// Reports the contributions that expired rollups did not take and that the levels above lack; returns whether there are none.
pub(crate) fn report_dropped(totals: &JobTotals) -> bool {
    let number = totals.number(DROPPED_CONTRIBUTIONS);
    if number > 0 {
        tell(&dropped_text(number));
    }
    number == 0
}

/// Reports records of rollups that were left out because they are of an earlier state table; returns whether there are none.
pub(crate) fn report_uncounted_rollups(totals: &JobTotals) -> bool {
    let records = totals.number(DeliveryTotal::RollupsNotCounted);
    if records > 0 {
        tell(&format!(
            "{records} records of rollups are of an earlier state table and were not counted: `{BACKFILL_LEVELS}` counts rollups of rollups."
        ));
    }
    records == 0
}

/// The command that settles expiries whose records were not counted.
pub(crate) fn replay_command() -> String {
    let bucket = EnvironmentSettings::from_env().bucket;
    format!("afterwrite replay s3://{}/archive/ --from TIME --yes", bucket.as_deref().unwrap_or("BUCKET"))
}

fn old_expiries_text(number: u64) -> String {
    format!(
        "{number} expiries of more than 35 days ago were not applied, because the state table does not show any more whether they were \
         settled. If it was restored to a time before them, their items are missing in its totals: follow \"expiries-too-old\" in \
         docs/RUNBOOK.md"
    )
}

fn unknown_table_text(number: u64) -> String {
    format!(
        "{number} ledger entries of a table that the model does not have count into aggregates of the model, so items of a table that was \
         renamed in the model count twice. Give the table its former name in the model (AFTERWRITE_TABLES alone names the deployed table), or \
         run `afterwrite backfill --drop` with a generation that has the former table and none of its aggregates"
    )
}

fn dropped_text(number: u64) -> String {
    format!(
        "{number} contributions to rollups that are sources and have expired are not counted, so the levels above lack them: `afterwrite replay \
         --into` a new state table counts them, as far as the archive has their items: follow \"Rebuilding a state table\" in docs/OPERATE.md. \
         A later run does not find them again, and ends with exit code 0 although they are still missing"
    )
}

fn vanished_text(number: u64, may_expire: bool) -> String {
    let text = format!(
        "{number} items ended without a record that was counted, and were subtracted, now or in the last 35 days. An item that TTL deleted must \
         stay counted: replay the archive from a time before the lost records on, which settles what expired: {}. If no item \
         expired, `afterwrite backfill --accept-lives` ends this message",
        replay_command()
    );
    if may_expire { text } else { format!("{text}. No source table has TTL now") }
}

fn expired_sources_text(number: u64) -> String {
    format!(
        "{number} rollups that are sources have expired, and no record shows that TTL deleted them. The levels above still count these \
         rollups as their ledger entries have them. If changes of the rollups were lost as well, the levels above lack these changes, and only a \
         new state table has them: follow \"Rebuilding a state table\" in docs/OPERATE.md"
    )
}

fn revived_text(number: u64) -> String {
    format!(
        "{number} items exist that an earlier stream of their table deleted: the table was restored, or its stream was created again. If they \
         had expired, they count twice now: follow \"After a restore\" in docs/RUNBOOK.md. If no item had expired, `afterwrite backfill \
         --accept-lives` ends this message"
    )
}

fn parked_expiries_text(number: u64) -> String {
    format!(
        "{number} expiries are parked, so their items are missing in the totals: `afterwrite redrive --dry-run` names them. Correct the \
         model, or add the item that a lookup needs; then replay the records: {}",
        replay_command()
    )
}

fn later_stream_text(number: u64) -> String {
    format!(
        "{number} items have ledger entries of a later stream than their table has: the ledger has followed another table, and this one was \
         deployed again. Each later change of these items is taken for a duplicate: follow \"An earlier table is deployed again\" in \
         docs/RUNBOOK.md"
    )
}

/// Whether items of a source table may have expired: the model names their TTL attribute, the table has TTL, or it is unknown whether it has.
async fn may_expire(deployment: &Deployment) -> Result<bool> {
    if deployment.config.model.entities.iter().any(|entity| entity.ttl.is_some()) {
        return Ok(true);
    }
    let client = Box::pin(dynamodb_client()).await?;
    // Rollups expire only if the model says so.
    let (config, model) = (&deployment.config, &deployment.config.model);
    for table in model.application_tables().filter_map(|(index, _)| config.table_names.get(index)) {
        if time_to_live(&client, table).await != Some(TimeToLiveStatus::Disabled) {
            return Ok(true);
        }
    }
    Ok(false)
}
