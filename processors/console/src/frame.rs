//! The frame of every page: head, navigation, and a note on what the reader may do.

use afterwrite_model::harmless::harmless;
use maud::{DOCTYPE, Markup, html};

use crate::assets::asset_address;
use crate::context::{ConsoleContext, ConsolePlace};
use crate::served::Served;

/// The settings of htmx: no styles and no code from text, and no request to another site.
const HTMX: &str =
    r#"{"includeIndicatorStyles":false,"allowEval":false,"selfRequestsOnly":true,"historyCacheSize":0}"#;

/// The pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Flow,
    Rollups,
    Item,
    Health,
    /// Only inside `dev`.
    Play,
}

impl Page {
    const ALL: [Self; 5] = [Self::Flow, Self::Rollups, Self::Item, Self::Health, Self::Play];

    /// The title in the navigation, and the address.
    pub(crate) fn link(self) -> (&'static str, &'static str) {
        match self {
            Self::Flow => ("Flow", "/"),
            Self::Rollups => ("Rollups", "/rollups"),
            Self::Item => ("Item", "/item"),
            Self::Health => ("Health", "/health"),
            Self::Play => ("Play", "/play"),
        }
    }
}

/// A page with these contents.
pub(crate) fn frame(served: &Served, page: Page, title: &str, contents: &Markup) -> Markup {
    let model = &served.context.model().name;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="htmx-config" content=(HTMX);
                title { (harmless(title)) " · " (model) }
                link rel="icon" href=(asset_address("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(asset_address("console.css"));
                script src=(asset_address("console.js")) data-htmx=(asset_address("htmx.min.js")) defer {}
            }
            body {
                a class="skip" href="#contents" { "Skip to the contents" }
                (banner(&served.context, page))
                main id="contents" {
                    h1 { (harmless(title)) }
                    (contents)
                }
            }
        }
    }
}

/// The model, the navigation, and the rights of the reader.
fn banner(context: &ConsoleContext, page: Page) -> Markup {
    let (place, is_dev) = match &context.place {
        ConsolePlace::Deployed => ("deployed", false),
        ConsolePlace::Dev(_) => ("on this machine", true),
    };
    let pages = Page::ALL.into_iter().filter(|page| is_dev || *page != Page::Play);
    html! {
        header {
            p class="model" { strong { (context.model().name) } " " span class="quiet" { (place) } }
            nav aria-label="Pages" {
                ul {
                    @for other in pages {
                        @let (name, address) = other.link();
                        li { a href=(address) aria-current=[(other == page).then_some("page")] { (name) } }
                    }
                }
            }
            p class="quiet rights" {
                @if context.options.allows_writes { "Writes are allowed" } @else { "Read-only" }
                @if !context.options.shows_items { ", without contents of items" }
            }
        }
    }
}
