use super::*;

fn arguments(datasets: Option<PathBuf>) -> QueryArguments {
    QueryArguments {
        sql: Some("SELECT 1".to_owned()),
        saved: None,
        list: false,
        model: Some(Model::DEFAULT_NAME.to_owned()),
        datasets,
        bucket: None,
        csv: false,
        json: false,
    }
}

#[test]
fn a_wrong_folder_is_reported_with_a_fix() {
    let bucket = tempfile::tempdir().unwrap();
    let message = |folder: PathBuf| arguments(Some(folder)).place(None).unwrap_err().to_string();
    assert!(message(bucket.path().join("nowhere")).contains("there is no such folder"));
    assert!(message(bucket.path().to_path_buf()).contains("datasets/<name>_log"));
    let datasets = bucket.path().join(DATASETS);
    std::fs::create_dir(&datasets).unwrap();
    assert!(message(datasets).contains("the folder that contains it"));
    let place = arguments(Some(bucket.path().to_path_buf())).place(Some("other".to_owned())).unwrap();
    assert_eq!(place, Place::Folder(bucket.path().to_path_buf()));
}

#[test]
fn without_arguments_the_bucket_of_the_environment_is_queried() {
    assert_eq!(arguments(None).place(Some("lake".to_owned())).unwrap(), Place::Bucket("lake".to_owned()));
    let error = arguments(None).place(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("--datasets") && error.to_string().contains("AFTERWRITE_BUCKET"));
}

#[test]
fn an_unknown_saved_query_is_reported_with_the_available_ones() {
    let model = Model::load(Model::DEFAULT_NAME).unwrap();
    let known = model.queries.first().map(|query| query.name.to_string()).unwrap();
    assert!(saved(&model, &known).is_ok());
    let error = saved(&model, "nothing").unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains(&known), "{error}");
}

#[test]
fn the_list_has_every_saved_query() {
    let model = Model::load(Model::DEFAULT_NAME).unwrap();
    let (table, json) = (saved_queries(&model, false).unwrap(), saved_queries(&model, true).unwrap());
    for query in &model.queries {
        assert!(table.contains(&*query.about) && json.contains(&*query.about), "{}", query.name);
    }
}

#[cfg(not(feature = "sql"))]
#[tokio::test]
async fn without_the_engine_the_error_has_a_hint_how_to_get_it() {
    let bucket = tempfile::tempdir().unwrap();
    std::fs::create_dir(bucket.path().join(DATASETS)).unwrap();
    let error = arguments(Some(bucket.path().to_path_buf())).run().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Configuration);
    assert!(error.to_string().contains("--features"), "{error}");
}
