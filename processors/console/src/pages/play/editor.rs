//! An item of the model, to write or to delete.

use std::borrow::Cow;
use std::sync::Arc;

use afterwrite_input::item_json::ItemJson;
use afterwrite_model::entity::SourceKey;
use afterwrite_model::harmless::{harmless, harmless_lines};
use afterwrite_model::record::Item;
use afterwrite_model::table::KeySchema;
use afterwrite_services::dynamodb::item_to_sdk;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use maud::{Markup, html};

use super::changes::{ChangeFilter, ChangeMark, mark_field};
use super::{not_here, view, wants_part};
use crate::board::DevBoard;
use crate::query::PageForm;
use crate::served::Served;
use crate::view::token_field;

/// The address that takes the item.
pub(crate) const WRITE: &str = "/play/write";

/// The item in the editor.
#[derive(Clone, Debug)]
pub(crate) struct EditedItem {
    table: String,
    json: String,
    written: Option<WriteOutcome>,
}

/// How a write ended: the changes that it makes, or why nothing was written.
type WriteOutcome = Result<(&'static str, ChangeMark), String>;

impl EditedItem {
    /// The item that `dev` has made for the model.
    pub(crate) fn sample(board: &DevBoard) -> Self {
        let sample = board.sample.last().cloned().unwrap_or_default();
        Self { table: sample.table, json: sample.json, written: None }
    }
}

/// `POST` of the item.
pub(crate) async fn write(
    State(served): State<Arc<Served>>,
    headers: HeaderMap,
    PageForm(form): PageForm,
) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    let text = |name: &str| form.get(name).unwrap_or_default().to_owned();
    let (table, json) = (text("table"), text("item"));
    let since = board.changes.newest();
    let deletes = form.get("action") == Some("delete");
    let written = written(&served, &table, &json, deletes).await;
    let outcome = written.map(|(done, key)| (done, (since, table.clone(), key)));
    let mark = outcome.as_ref().ok().map(|(_, mark)| mark.clone());
    let filter = ChangeFilter::of(&form).marking(mark);
    if wants_part(&headers) {
        let part = html! {
            (message(&outcome))
            @if outcome.is_ok() { (mark_field(&filter, true)) }
        };
        return Html(part.into_string()).into_response();
    }
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let item = EditedItem { table, json, written: Some(outcome) };
    let page = super::answer(&served, crate::frame::Page::Play, &form, view(&served, board, &filter, &item));
    (status, page).into_response()
}

/// Writes or deletes the item; returns the action and the values of its key.
async fn written(
    served: &Served,
    table: &str,
    json: &str,
    deletes: bool,
) -> Result<(&'static str, Vec<String>), String> {
    let context = &served.context;
    let mut tables = context.model().application_tables();
    let known =
        tables.find(|(index, _)| context.config.table_names.get(*index).is_some_and(|name| **name == *table));
    let (index, schema) = known.ok_or("The model has no such table.")?;
    let (_, item) = ItemJson::read(json).map_err(|error| error.to_string())?;
    let source = SourceKey::of_item(context.model(), index, &item);
    let values = source.into_iter().flat_map(|key| [Some(key.partition), key.sort]).flatten();
    let values = values.map(Cow::into_owned).collect();
    let client = &context.client;
    if deletes {
        let attribute = |key: &KeySchema| Some((key.name.to_string().into(), item.get(&*key.name)?.clone()));
        let key: Item = schema.key().filter_map(attribute).collect();
        let delete = client.delete_item().table_name(table).set_key(Some(item_to_sdk(&key)));
        delete.send().await.map_err(|error| problem_of(&error))?;
        Ok(("Deleted", values))
    } else {
        let put = client.put_item().table_name(table).set_item(Some(item_to_sdk(&item)));
        put.send().await.map_err(|error| problem_of(&error))?;
        Ok(("Written", values))
    }
}

/// An error of DynamoDB, as it words it.
fn problem_of<E: ProvideErrorMetadata>(error: &SdkError<E>) -> String {
    match error.as_service_error() {
        Some(refused) => {
            let (code, message) =
                (refused.code().unwrap_or("Error"), refused.message().unwrap_or("no message"));
            format!("DynamoDB refuses it: {code}: {message}")
        }
        None => "DynamoDB cannot be reached.".to_owned(),
    }
}

/// The items that the editor's first item looks up: without them, it is not counted.
pub(super) fn looked_up(board: &DevBoard) -> Markup {
    let items = board.sample.split_last().map_or(&[][..], |(_, items)| items);
    html! {
        @for item in items {
            details {
                summary { "Write first: the item of " (harmless(&item.table)) " that the item below looks up" }
                pre { (harmless_lines(&item.json)) }
            }
        }
    }
}

/// The editor.
pub(super) fn form(served: &Served, item: &EditedItem) -> Markup {
    let context = &served.context;
    let names =
        context.model().application_tables().filter_map(|(index, _)| context.config.table_names.get(index));
    html! {
        form class="editor" method="post" action=(WRITE) hx-post=(WRITE) hx-target="#written" hx-swap="innerHTML" {
            (token_field(served))
            label {
                "Table"
                select name="table" {
                    @for name in names { option value=(name) selected[**name == *item.table] { (name) } }
                }
            }
            label class="wide" {
                "Item, in DynamoDB's JSON or in plain JSON"
                textarea name="item" rows="14" spellcheck="false" { "\n" (item.json) }
            }
            button name="action" value="put" { "Write" }
            button name="action" value="delete" { "Delete" }
        }
        div id="written" role="status" {
            @if let Some(outcome) = &item.written { (message(outcome)) }
        }
    }
}

fn message(outcome: &WriteOutcome) -> Markup {
    html! {
        @match outcome {
            Ok((done, (_, table, key))) => p {
                span class="verdict good" { (done) } " "
                code { (harmless_lines(&format!("{table} {}", key.join(" ")))) }
                ". An equal item makes no change."
            },
            Err(problem) => div class="problem" role="alert" { pre { (harmless_lines(problem)) } },
        }
    }
}
