//! The page *Play*, inside `afterwrite dev` only: changes as they flow with everything that follows from them, an item to write, a record
//! to deliver again, faults to switch on, and a recount that shows whether everything is still equal.

pub(crate) mod again;
mod change_text;
pub(crate) mod changes;
pub(crate) mod editor;
pub(crate) mod faults;
pub(crate) mod recount;

use std::sync::Arc;

use afterwrite_model::clock::{Clock as _, SystemClock};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse as _, Response};
use maud::html;

use self::changes::ChangeFilter;
use self::editor::EditedItem;
use super::answer;
use crate::board::DevBoard;
use crate::frame::{Page, frame};
use crate::query::PageQuery;
use crate::served::Served;
use crate::view::{View, ViewResult};

/// The address of the page.
pub(crate) const PLAY: &str = "/play";

/// `GET` of the page.
pub(crate) async fn play(State(served): State<Arc<Served>>, query: PageQuery) -> Response {
    let Some(board) = served.context.board() else { return not_here(&served) };
    let filter = ChangeFilter::of(&query);
    let mut view = view(&served, board, &filter, &EditedItem::sample(board));
    if query.asks_for_data()
        && let Ok(view) = &mut view
    {
        view.data(changes::table(&served, board, &filter));
        view.data(recount::table(board));
        view.data(recount::findings_table(board));
        view.data(faults::table(board));
    }
    answer(&served, Page::Play, &query, view)
}

/// The page with an item in the editor.
fn view(served: &Arc<Served>, board: &Arc<DevBoard>, filter: &ChangeFilter, item: &EditedItem) -> ViewResult {
    board.recount.ask(SystemClock.now());
    let mut view = View::new(Page::Play, "Play");
    view.show(html! {
        div class="play" {
            section aria-labelledby="recount-title" {
                h2 id="recount-title" { "Recount" }
                div id="recount" hx-get=(recount::RECOUNT) hx-trigger="every 2s" hx-swap="innerHTML" {
                    (recount::markup(board))
                }
                h2 { "Faults" }
                (faults::form(served, board))
                h2 { "Write an item" }
                (editor::looked_up(board))
                (editor::form(served, item))
            }
            section aria-labelledby="changes-title" {
                h2 id="changes-title" { "Changes" }
                (changes::list(served, board, filter))
            }
        }
    });
    Ok(view)
}

/// The answer of a deployment, which has no such page.
fn not_here(served: &Served) -> Response {
    let contents = html! {
        p class="empty" {
            "This page is for a deployment on this machine: start "
            code { "afterwrite dev" }
            ", and open the console that it prints."
        }
    };
    (StatusCode::NOT_FOUND, Html(frame(served, Page::Play, "Play", &contents).into_string())).into_response()
}

/// Whether a request wants a part of the page, in place of the page.
fn wants_part(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request")
}
