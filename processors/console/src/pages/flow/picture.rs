//! The picture of the flow: the stages in lanes, each stage with an arrow to the next.

use afterwrite_model::harmless::harmless;
use maud::{Markup, html};

use crate::incidents::waiting_list;
use crate::prose::prose;
use crate::table::{Cell, PageTable, Verdict};

/// A lane: stages in the order in which a change passes them.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The name.
    pub(crate) name: &'static str,
    /// The stages.
    pub(crate) stages: Vec<Stage>,
}

/// A stage of the flow.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// The name.
    pub(crate) name: String,
    /// The task, in a few words.
    pub(crate) about: String,
    /// The page that has the details.
    pub(crate) link: Option<String>,
    /// How the stage stands; `None` if nothing can be wrong with it.
    pub(crate) verdict: Option<(Verdict, String)>,
    /// Advice, with commands between backquotes; `None` if nothing is to be done.
    pub(crate) advice: Option<String>,
    /// The records that the stage waits for: the item of each, and why it was not taken.
    pub(crate) waiting: Vec<(Cell, String)>,
    /// The facts: label and value. A stage has always the same labels, so that a new reading does not move the page.
    pub(crate) facts: Vec<StageFact>,
}

/// A label and a value.
pub(crate) type StageFact = (&'static str, String);

impl Stage {
    /// A stage without a link, a verdict and facts.
    pub(crate) fn new(name: impl Into<String>, about: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            about: about.into(),
            link: None,
            verdict: None,
            advice: None,
            waiting: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// Links the stage to a page.
    pub(crate) fn linked(self, to: impl Into<String>) -> Self {
        Self { link: Some(to.into()), ..self }
    }

    /// Sets how the stage stands.
    pub(crate) fn judged(self, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { verdict: Some((verdict, text.into())), ..self }
    }

    /// Adds advice.
    pub(crate) fn advised(self, advice: Option<String>) -> Self {
        Self { advice, ..self }
    }

    /// Adds the records that the stage waits for.
    pub(crate) fn waits_for(self, waiting: Vec<(Cell, String)>) -> Self {
        Self { waiting, ..self }
    }

    /// Adds a fact.
    pub(crate) fn fact(mut self, label: &'static str, value: impl ToString) -> Self {
        self.facts.push((label, value.to_string()));
        self
    }

    fn markup(&self) -> Markup {
        html! {
            h3 {
                @if let Some(link) = &self.link { a href=(link) { (harmless(&self.name)) } }
                @else { (harmless(&self.name)) }
            }
            p class="quiet" { (harmless(&self.about)) }
            @if let Some((verdict, text)) = &self.verdict { p { (Cell::Verdict(*verdict, text.clone()).markup()) } }
            @if let Some(advice) = &self.advice { p { (prose(advice)) } }
            (waiting_list(&self.waiting))
            @if !self.facts.is_empty() {
                dl class="facts" {
                    @for (label, value) in &self.facts { dt { (label) } dd { (harmless(value)) } }
                }
            }
        }
    }
}

/// The advice for failed batches. The command is between backquotes, and shows its effect first.
pub(crate) fn failed_advice(command: &str) -> String {
    format!(
        "A failed batch is kept until it is processed again. Remove the cause, then run {command}, and again with `--yes` in place of `--dry-run`."
    )
}

/// The lanes, one below the other.
pub(crate) fn picture(lanes: &[Lane]) -> Markup {
    html! {
        div class="flow" {
            @for lane in lanes {
                section class="lane" {
                    h2 { (lane.name) }
                    ol { @for stage in &lane.stages { li class="card" { (stage.markup()) } } }
                }
            }
        }
    }
}

/// The facts of all stages, for machines.
pub(crate) fn stage_table(lanes: &[Lane]) -> PageTable {
    let mut table =
        PageTable::new("stages", &["lane", "stage", "verdict", "fact", "value"], "No stage is known.");
    for (lane, stage) in lanes.iter().flat_map(|lane| lane.stages.iter().map(move |stage| (lane, stage))) {
        let verdict = stage.verdict.as_ref();
        let verdict = verdict.map_or(Cell::Empty, |(verdict, text)| Cell::Verdict(*verdict, text.clone()));
        let row = |label: Cell, value: Cell| {
            vec![Cell::text(lane.name), Cell::text(&stage.name), verdict.clone(), label, value]
        };
        if stage.facts.is_empty() {
            table.rows.push(row(Cell::Empty, Cell::Empty));
        }
        let facts = stage.facts.iter().map(|(label, value)| row(Cell::text(*label), Cell::text(value)));
        table.rows.extend(facts);
        let waiting = stage.waiting.iter().map(|(item, reason)| {
            row(Cell::text("waits for"), Cell::text(format!("{}: {reason}", item.plain())))
        });
        table.rows.extend(waiting);
        if let Some(advice) = &stage.advice {
            table.rows.push(row(Cell::text("what to do"), Cell::Prose(advice.clone())));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_a_card_with_its_facts_and_hostile_names_are_text() {
        let stage = Stage::new("<b>queue</b>", "takes messages")
            .linked("/health")
            .judged(Verdict::Good, "drained")
            .advised(Some("Run `a <b>`".to_owned()))
            .fact("waiting", 3);
        let lanes = [Lane { name: "Paths", stages: vec![stage, Stage::new("invalidator", "sends paths")] }];
        let html = picture(&lanes).into_string();
        assert!(html.contains(r#"<a href="/health">&lt;b&gt;queue&lt;/b&gt;</a>"#), "{html}");
        assert!(html.contains("<dt>waiting</dt><dd>3</dd>"), "{html}");
        let json = stage_table(&lanes).json();
        assert_eq!((&json[0]["fact"], &json[0]["value"]), (&"waiting".into(), &"3".into()));
        assert!(html.contains("Run <code>a &lt;b&gt;</code>"), "{html}");
        assert_eq!((&json[1]["fact"], &json[2]["stage"]), (&"what to do".into(), &"invalidator".into()));
    }
}
