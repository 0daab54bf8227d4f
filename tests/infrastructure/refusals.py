"""The deployments that the module refuses: runs of infra/tests that break several rules at once, and the messages that each must have.

Planning costs more than what it refuses, so a run breaks every rule that does not hide another one. Terraform compares only the addresses of
what fails: the runs that are listed here are planned without their `expect_failures`, and their messages are compared here.
"""

# By the file and the run: the beginnings of the messages, by the address of what refuses. Each message comes once, and no other one comes. Messages
# in parentheses are of one rule, for several instances of a resource.
REFUSED = {
    "refusals": {
        "settings_that_contradict_the_model_or_each_other": {
            "terraform_data.model": [
                "Set package_dir to the folder that infra/build wrote, or package_s3",
                "`tables` has a table that the model exambuddy does not know. Its tables: ExamBuddyTable.",
                "`stream_filters` has a table that the model exambuddy does not know. Its tables: ExamBuddyTable.",
                "In `tables`, `name` and `stream_arn` are of different tables: ExamBuddyTable has the name ledger and the stream arn:",
                "`ledger` is both the state table and a source table.",
                "A stream allows two readers, and 3 are configured (aggregator, relay, and 1 others).",
                "Set cache_url or cache_url_secret_arn, not both.",
                "vpc_subnet_ids needs vpc_security_group_ids",
            ],
        },
        "several_tables_of_which_one_is_global": {
            "terraform_data.model": [
                "Two tables of the model have the same deployed name.",
                "A global table's stream allows one reader, and 2 are configured.",
                "Each replica of a global table needs a key of its own region",
            ],
        },
        "another_reader_next_to_the_one_of_a_global_table": {
            "terraform_data.model": ["A global table's stream allows one reader, and 2 are configured."],
        },
        "two_readers_of_an_existing_global_table": {
            "terraform_data.model": ["A global table's stream allows one reader, and 2 are configured."],
        },
        "no_code_and_another_architecture_and_a_bulk_backfill_of_nothing": {
            "terraform_data.model": [
                "Set package_dir to the folder that infra/build wrote, or package_s3",
                "infra/build made the zips for x86_64, and architecture is arm64",
            ],
            "aws_lambda_function.bulk": ["bulk_backfill needs rollups in the model and the archive"],
        },
        "nothing_to_derive": {
            "terraform_data.model": ["The model no-rollups has no rollups, and neither archive, cache, distribution nor events"],
        },
        "zips_that_are_not_built_and_a_name_that_is_too_long_for_the_bucket_of_failed_records": {
            "aws_lambda_function.function": [
                tuple(f"There is no {function}.zip in tests." for function in ("aggregator", "relay", "exporter", "compactor", "verifier")),
            ],
            "aws_s3_bucket.failures": ["The name of a bucket has at most 63 characters, and a-name-of-the-thirty-letters-x-failures-"],
        },
        "an_expiration_before_a_transition_and_a_threshold_that_a_healthy_deployment_reaches": {
            "aws_s3_bucket_lifecycle_configuration.archive": ["archive_expiration_days (90) must be later than every transition"],
            "aws_cloudwatch_metric_alarm.alarm": ["The threshold of the alarm freshness-queryable (10800 s) must be above the age"],
        },
        "records_without_a_retry_and_fewer_reserved_exporters_than_run_at_once": {
            "aws_lambda_event_source_mapping.stream": [
                tuple(f"maximum_record_age_in_seconds is shorter than two runs of {function} (60 s each)" for function in ("aggregator", "relay")),
            ],
            "aws_lambda_event_source_mapping.exporter": ["exporter reserves 15 concurrent executions, fewer than exporter_maximum_concurrency (16)"],
        },
        "a_policy_of_more_than_10240_characters_and_a_bulk_backfill_without_an_archive": {
            "aws_iam_role_policy.function": ["The policy of relay exceeds the 10,240 characters"],
            "aws_lambda_function.bulk": ["bulk_backfill needs rollups in the model and the archive"],
        },
        "a_table_without_a_stream": {
            "data.aws_dynamodb_table.source": [
                "The table ExamBuddyTable needs a stream with the view type NEW_AND_OLD_IMAGES, and has none.",
                "The table ExamBuddyTable has the key pk SK, and the model exambuddy declares PK SK.",
                "The table ExamBuddyTable lacks an index that lookups of the model exambuddy query",
            ],
        },
        "a_stream_without_old_images": {
            "data.aws_dynamodb_table.source": [
                "The table ExamBuddyTable needs a stream with the view type NEW_AND_OLD_IMAGES, and has NEW_IMAGE.",
                "The table ExamBuddyTable has the key PK sk, and the model exambuddy declares PK SK.",
                "The table ExamBuddyTable lacks an index that lookups of the model exambuddy query, or the index has another key",
                "An index of the table ExamBuddyTable that lookups of the model exambuddy query does not copy all attributes",
            ],
        },
        "a_table_with_another_type_of_key": {
            "data.aws_dynamodb_table.source": [
                "A key attribute of the table ExamBuddyTable has another type than the model exambuddy declares: PK S, SK S.",
                "The table ExamBuddyTable lacks an index that lookups of the model exambuddy query, or the index has another key",
                "An index of the table ExamBuddyTable that lookups of the model exambuddy query does not copy all attributes",
            ],
            "data.aws_lambda_function.canary": ["Version 3 of exams-aggregator has another model or generation"],
        },
    },
    "index-keys": {
        "indexes_that_cannot_be_created": {
            "aws_dynamodb_table.source": [
                "An attribute of the table Branches has two types in its keys: SK is S and N; score is N and S.",
                "The indexes ByPlace of the table Branches have several attributes in a key",
                "The indexes ByCode of the table Branches are those of lookups of the model branches, with another key or projection",
            ],
        },
    },
    "levels": {
        "a_given_state_table_without_a_stream": {
            "data.aws_dynamodb_table.state": ["Rollups are sources in the model levels, so the state table levels-state needs a stream"],
            "terraform_data.model": [
                "`tables` has a table that the model levels does not know. Its tables: Orders.",
                "`stream_filters` has a table that the model levels does not know. Its tables: Orders.",
            ],
        },
    },
    "events": {
        "targets_that_do_not_fit_the_rules": {
            "terraform_data.model": [
                'The model orders has events without a target: set events_arn, event_target_arns["billing"] to the ARN',
                "`event_target_arns` has a target that no event rule of the model orders names. Its targets: billing.",
            ],
        },
    },
}


def refusal_problems(run, refused, reported):
    """What differs between the messages that a run must have and those that Terraform reports: pairs of an address and a message."""
    reported = list(reported)
    for address, messages in refused.items():
        for message in [message for of_rule in messages for message in ([of_rule] if isinstance(of_rule, str) else of_rule)]:
            found = [pair for pair in reported if pair[0] == address and pair[1].startswith(message)]
            if found:
                reported.remove(found[0])
            else:
                yield f"{run}: {address} does not refuse it: {message}"
    for address, message in reported:
        yield f"{run}: {address} refuses it, which is not expected: {message}"
