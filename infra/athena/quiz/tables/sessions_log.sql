CREATE EXTERNAL TABLE IF NOT EXISTS `sessions_log` (
  `session_id` string,
  `user_id` string,
  `status` string,
  `started_at` timestamp,
  `completed_at` timestamp,
  `total_questions` bigint,
  `current_question` bigint,
  `answered_questions` array<string>,
  `wrong_answers` array<string>,
  `sources` string,
  `config` string,
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
LOCATION 's3://${bucket}/datasets/sessions/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'projection.dt.type' = 'date',
  'projection.dt.format' = 'yyyy-MM-dd',
  'projection.dt.range' = '0001-01-01,2049-12-31',
  'projection.dt.interval' = '1',
  'projection.dt.interval.unit' = 'DAYS',
  'storage.location.template' = 's3://${bucket}/datasets/sessions/dt=${dt}/'
)
