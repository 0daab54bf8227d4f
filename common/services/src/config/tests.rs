use super::*;

fn settings(variables: &[(&str, &str)]) -> EnvironmentSettings {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    EnvironmentSettings::from_variables(variables)
}

fn assert_names<T>(result: Result<T>, words: &[&str]) {
    let Err(error) = result else { panic!("no error that names {words:?}") };
    assert_eq!(error.kind(), ErrorKind::Configuration);
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is missing in: {error}");
    }
}

#[test]
fn a_required_variable_that_is_unset_or_empty_is_named() {
    for settings in [settings(&[]), settings(&[(MODEL, ""), (STATE_TABLE, ""), (BUCKET, "")])] {
        assert_names(FunctionConfig::resolve(&settings), &["AFTERWRITE_MODEL", "exambuddy"]);
        assert_names(settings.required_state_table(), &["AFTERWRITE_STATE_TABLE"]);
        assert_names(settings.required_firehose_stream(), &["AFTERWRITE_FIREHOSE_STREAM"]);
        assert_names(settings.required_bucket(), &["AFTERWRITE_BUCKET"]);
    }
    let settings = settings(&[(STATE_TABLE, "state"), (FIREHOSE_STREAM, "changes"), (BUCKET, "lake")]);
    assert_eq!(&*settings.required_state_table().unwrap(), "state");
    assert_eq!(&*settings.required_firehose_stream().unwrap(), "changes");
    assert_eq!(&*settings.required_bucket().unwrap(), "lake");
}

#[test]
fn a_table_may_have_another_name_where_it_is_deployed() {
    let table = Model::load("exambuddy").unwrap().tables[0].name.clone();
    let config = |tables: &str| FunctionConfig::resolve(&settings(&[(MODEL, "exambuddy"), (TABLES, tables)]));
    assert_eq!(config("").unwrap().table_names, std::slice::from_ref(&table));
    assert_eq!(config(&format!("{table}=prod-exams")).unwrap().table_names, [Arc::from("prod-exams")]);
    for (tables, named) in [("Nothing=prod", "Nothing"), ("prod-exams", "prod-exams"), ("x=", "x=")] {
        assert_names(config(tables), &["AFTERWRITE_TABLES", named]);
    }
}

#[test]
fn the_first_of_several_names_is_written_and_all_are_read() {
    let table = Model::load("exambuddy").unwrap().tables[0].name.clone();
    let tables = format!("{table}=new, {table}=old,{table}={table}");
    let config = FunctionConfig::resolve(&settings(&[(MODEL, "exambuddy"), (TABLES, &tables)])).unwrap();
    assert_eq!(config.table_names, [Arc::from("new")]);
    for (name, index) in [("new", Some(0)), ("old", Some(0)), (&*table, Some(0)), ("other", None)] {
        assert_eq!(config.model.table_deployed_as(&config.table_names, name), index, "{name}");
    }
}

/// The archive has changes of its rollups under every name that it had.
#[test]
fn the_state_table_may_have_had_other_names_if_rollups_are_sources() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/tests/levels.toml");
    let config = |tables: &str| {
        FunctionConfig::resolve(&settings(&[(MODEL, model), (STATE_TABLE, "state"), (TABLES, tables)]))
    };
    let resolved = config("@state=before,@state=restored").unwrap();
    let state = resolved.model.state_source().unwrap();
    for name in ["state", "before", "restored"] {
        assert_eq!(resolved.model.table_deployed_as(&resolved.table_names, name), Some(state), "{name}");
    }
    assert_eq!(resolved.table_names.get(state).map(|name| &**name), Some("state"));
    let repeated = config("@state=state,@state=before").unwrap();
    assert_eq!(repeated.table_names.get(state).map(|name| &**name), Some("state"));
    assert_names(config("@state=before,@state=before"), &["AFTERWRITE_TABLES", "twice"]);
    assert_names(config("@state=Orders"), &["same name", "Orders"]);
    let without = settings(&[(MODEL, "quiz"), (TABLES, "@state=before")]);
    assert_names(FunctionConfig::resolve(&without), &["@state", "not a table of the model"]);
}

#[test]
fn tables_of_one_name_are_refused() {
    let config = |tables: &str, state| {
        FunctionConfig::resolve(&settings(&[(MODEL, "quiz"), (TABLES, tables), (STATE_TABLE, state)]))
    };
    let tables: Vec<_> = Model::load("quiz").unwrap().tables.iter().map(|table| table.name.clone()).collect();
    let [one, other, ..] = &tables[..] else { panic!("two tables") };
    assert!(config(&format!("{one}=aaa,{other}=bbb"), "state").is_ok());
    assert!(config(&format!("{one}={other},{other}={one}"), "state").is_ok());
    assert_names(config(&format!("{one}=aaa,{other}=aaa"), "state"), &["same name", one, other]);
    assert_names(config(&format!("{one}={other}"), "state"), &["same name", one, other]);
    assert_names(config(&format!("{one}=aaa,{one}=aaa"), "state"), &["AFTERWRITE_TABLES", "twice", one]);
    assert_names(config(&format!("{one}=aaa,{one}=bbb,{other}=bbb"), "state"), &["same name", one, other]);
    assert_names(config(&format!("{one}=aaa,{one}={other}"), "state"), &["same name", one, other]);
    assert_names(config(&format!("{one}=aaa,{one}=state"), "state"), &["AFTERWRITE_STATE_TABLE", "state"]);
    assert_names(config(&format!("{one}=state"), "state"), &["AFTERWRITE_STATE_TABLE", "state"]);
}

#[test]
fn a_name_that_no_table_can_have_is_refused() {
    let table = Model::load("exambuddy").unwrap().tables[0].name.clone();
    let config = |written: &str| {
        FunctionConfig::resolve(&settings(&[(MODEL, "exambuddy"), (TABLES, &format!("{table}={written}"))]))
    };
    assert_eq!(config(" prod-exams ,").unwrap().table_names, [Arc::from("prod-exams")]);
    let arn = "arn:aws:dynamodb:eu-west-1:1:table/Exams";
    for (written, named) in
        [("a", "3 to 255"), ("aaa=b", "aaa=b"), ("aaa;b=bbb", ";"), (arn, "after `table/`")]
    {
        assert_names(config(written), &["AFTERWRITE_TABLES", written, named]);
    }
    assert!(config(&"a".repeat(255)).is_ok() && config(&"a".repeat(256)).is_err());
    let short = |tables| {
        let text = "name = \"short\"\ngeneration = 1\ntables.T.key = [\"pk\"]\n";
        let mut model = Model::parse(text, "short.toml").unwrap();
        let table_names = deployed_names(&mut model, tables, None).unwrap();
        FunctionConfig { model: Arc::new(model), table_names }.check_table_names()
    };
    assert_names(short(""), &["the model names a table `T`", "3 to 255"]);
    assert!(short("T=Things").is_ok());
}

#[test]
fn a_region_is_that_of_a_function_on_aws() {
    let function = [("AWS_LAMBDA_FUNCTION_NAME", "aggregator"), ("AWS_REGION", "eu-west-1")];
    let with = |variable| settings(&[function[0], function[1], variable]).region;
    assert_eq!(with(("AWS_ENDPOINT_URL", "")).as_deref(), Some("eu-west-1"));
    assert_eq!(with(("AWS_ENDPOINT_URL", "http://localhost:8000")), None);
    assert_eq!(with(("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:8000")), None);
    assert_eq!(settings(&function[..1]).region, None);
    assert_eq!(settings(&function[1..]).region, None);
}

#[test]
fn a_function_hosts_the_named_projections_or_its_default() {
    use ProjectionKind::{Aggregate, Archive, Invalidate};
    let hosted = |names| settings(&[(PROJECTIONS, names)]).projections_or(&[Invalidate, Archive]);
    assert_eq!(hosted("").unwrap(), [Invalidate, Archive].into());
    assert_eq!(hosted(" ,").unwrap(), [Invalidate, Archive].into());
    assert_eq!(hosted("archive, aggregate,archive").unwrap(), [Aggregate, Archive].into());
    assert_names(hosted("aggregate, teleport"), &["AFTERWRITE_PROJECTIONS", "teleport"]);
}

#[tokio::test]
async fn a_cache_is_optional_and_its_address_is_never_repeated() {
    let cache = async |url, cluster| settings(&[(CACHE_URL, url), (CACHE_CLUSTER, cluster)]).cache().await;
    assert!(cache("", "").await.unwrap().is_none());
    for url in ["redis://127.0.0.1:6379", "rediss://user:secret@cache.example:6379"] {
        assert!(cache(url, "true").await.unwrap().is_some());
    }
    for url in ["http://user:secret@cache.example", "secret", "redis://user:secret@"] {
        let error = cache(url, "").await.unwrap_err().to_string();
        assert!(error.contains("AFTERWRITE_CACHE_URL") && !error.contains("secret"), "{error}");
    }
    assert_names(cache("redis://127.0.0.1", "yes").await, &["AFTERWRITE_CACHE_CLUSTER"]);
    let twice =
        settings(&[(CACHE_URL, "redis://cache"), (CACHE_SECRET, "arn:aws:secretsmanager:r:1:secret:s")]);
    assert_names(twice.cache().await, &["AFTERWRITE_CACHE_URL", "AFTERWRITE_CACHE_SECRET"]);
}

#[test]
fn a_queue_is_named_by_its_url() {
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/stale-paths";
    assert_eq!(settings(&[(CDN_QUEUE, url)]).cdn_queue().unwrap(), Some(url));
    assert_eq!(settings(&[(CDN_QUEUE, "")]).cdn_queue().unwrap(), None);
    for name in ["stale-paths", "arn:aws:sqs:eu-west-1:123456789012:stale-paths"] {
        assert_names(settings(&[(CDN_QUEUE, name)]).cdn_queue(), &["AFTERWRITE_CDN_QUEUE", "URL"]);
    }
}

#[test]
fn the_labels_of_metrics_have_the_names_that_powertools_reads() {
    let labelled = settings(&[(METRICS_NAMESPACE, "Exams"), (METRICS_SERVICE, "exams-production")]);
    assert_eq!(labelled.metrics_namespace.as_deref(), Some("Exams"));
    assert_eq!(labelled.metrics_service.as_deref(), Some("exams-production"));
    let empty = settings(&[("POWERTOOLS_METRICS_NAMESPACE", ""), ("POWERTOOLS_SERVICE_NAME", "")]);
    assert_eq!((empty.metrics_namespace, empty.metrics_service), (None, None));
}

#[test]
fn an_unknown_variable_is_warned_about() {
    let known = settings(&[("AFTERWRITE_MODEL", "shop"), ("AFTERWRITE_BUCKET", ""), ("PATH", "/bin")]);
    assert_eq!(known.warnings, Vec::<String>::new());
    let unknown = settings(&[("AFTERWRITE_MODLE", "shop"), ("AFTERWRITE_COLOUR_SCHEME", "dark")]);
    assert_eq!(
        unknown.warnings,
        [
            "AFTERWRITE_COLOUR_SCHEME is not a setting of Afterwrite and is ignored",
            "AFTERWRITE_MODLE is not a setting of Afterwrite and is ignored; did you mean AFTERWRITE_MODEL?",
        ]
    );
}

const EVENTS_MODEL: &str = include_str!("../../../../infra/tests/events.toml");
const BUS: &str = "arn:aws:events:eu-west-1:1:event-bus/b";
const QUEUE: &str = "arn:aws:sqs:eu-west-1:1:q.fifo";

#[test]
fn each_target_that_a_rule_names_has_a_variable() {
    let model = Model::parse(EVENTS_MODEL, "events.toml").unwrap();
    assert_names(settings(&[]).event_arns(&model), &["AFTERWRITE_EVENTS is not set"]);
    let billing = settings(&[("AFTERWRITE_EVENTS", BUS), ("AFTERWRITE_EVENTS_BILLING", "")]);
    assert_names(billing.event_arns(&model), &["AFTERWRITE_EVENTS_BILLING is not set"]);
    let wrong = settings(&[("AFTERWRITE_EVENTS", BUS), ("AFTERWRITE_EVENTS_BILLING", "q")]);
    assert_names(wrong.event_arns(&model), &["AFTERWRITE_EVENTS_BILLING", "event-bus"]);
    let both = settings(&[("AFTERWRITE_EVENTS", BUS), ("AFTERWRITE_EVENTS_BILLING", QUEUE)]);
    assert_eq!(both.warnings, Vec::<String>::new());
    let arns = both.event_arns(&model).unwrap();
    let arns: Vec<(Option<&str>, &str)> = arns.iter().map(|(to, arn)| (to.as_deref(), &*arn.text)).collect();
    assert_eq!(arns, [(None, BUS), (Some("billing"), QUEUE)]);
    let without_events = Model::load("exambuddy").unwrap();
    assert!(settings(&[]).event_arns(&without_events).unwrap().is_empty());
}
