CREATE EXTERNAL TABLE IF NOT EXISTS `progress_log` (
  `user_id` string,
  `question_id` string,
  `session_id` string,
  `attempts` bigint,
  `correct_attempts` bigint,
  `incorrect_attempts` bigint,
  `mastery_level` bigint,
  `wrong_answer_count` bigint,
  `is_in_wrong_pool` boolean,
  `first_seen_at` timestamp,
  `last_attempt_at` timestamp,
  `_position` string,
  `_operation` string,
  `_changed_at` timestamp,
  `_rescued` string,
  `_generation` bigint
)
PARTITIONED BY (`dt` string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe'
STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat'
OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat'
LOCATION 's3://${bucket}/datasets/progress/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'projection.dt.type' = 'date',
  'projection.dt.format' = 'yyyy-MM-dd',
  'projection.dt.range' = '0001-01-01,2049-12-31',
  'projection.dt.interval' = '1',
  'projection.dt.interval.unit' = 'DAYS',
  'storage.location.template' = 's3://${bucket}/datasets/progress/dt=${dt}/'
)
