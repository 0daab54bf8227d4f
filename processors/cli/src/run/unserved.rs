//! The parts of a model that a consumer without `AFTERWRITE_PROJECTIONS` does not serve.

use std::collections::BTreeSet;

use afterwrite_model::table::Model;

/// Names the events, caches and datasets of a model for a consumer that only counts; `None` if the model has none.
pub(super) fn unserved_note(model: &Model) -> Option<String> {
    let entity = |index: usize| model.entities.get(index).map(|entity| &*entity.name);
    let events: Vec<&str> = model.events.iter().map(|rule| &*rule.name).collect();
    let caches: BTreeSet<&str> = model.caches.iter().filter_map(|rule| entity(rule.of)).collect();
    let datasets: Vec<&str> = model.datasets.iter().map(|dataset| &*dataset.name).collect();
    let parts = [
        ("notify", "events", events),
        ("invalidate", "caches of", caches.into_iter().collect()),
        ("archive", "datasets", datasets),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(_, _, names)| !names.is_empty()).collect();
    let named: Vec<String> =
        parts.iter().map(|(_, kind, names)| format!("{kind} {}", names.join(", "))).collect();
    let projections: Vec<&str> = parts.iter().map(|(projection, ..)| *projection).collect();
    (!parts.is_empty()).then(|| {
        format!(
            "AFTERWRITE_PROJECTIONS is not set: this consumer counts, and does not serve the model's {}; to serve them here, set it to aggregate,{}",
            named.join("; "),
            projections.join(",")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_that_is_not_served_is_named() {
        let note = |model: &str| unserved_note(&Model::load(model).unwrap());
        let note_of_boards = note("leaderboard").unwrap();
        assert!(
            note_of_boards.contains("events gold_reached; caches of game_week, match, score"),
            "{note_of_boards}"
        );
        assert!(note_of_boards.contains("aggregate,notify,invalidate"), "{note_of_boards}");
        let model = "name = \"m\"\ngeneration = 1\ntables.t.key = [\"pk\"]\n[entities.book]\nkey = { pk = \"BOOK#{book}\" }\n";
        assert_eq!(unserved_note(&Model::parse(model, "m.toml").unwrap()), None);
    }
}
