CREATE EXTERNAL TABLE IF NOT EXISTS `history_log` (
  `history_id` string,
  `user_id` string,
  `problem_id` string,
  `platform` string,
  `problem_number` string,
  `problem_name` string,
  `language` string,
  `status` string,
  `passed` bigint,
  `failed` bigint,
  `total` bigint,
  `is_public` bigint,
  `created_at` timestamp,
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
LOCATION 's3://${bucket}/datasets/history/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'projection.dt.type' = 'date',
  'projection.dt.format' = 'yyyy-MM-dd',
  'projection.dt.range' = '0001-01-01,2049-12-31',
  'projection.dt.interval' = '1',
  'projection.dt.interval.unit' = 'DAYS',
  'storage.location.template' = 's3://${bucket}/datasets/history/dt=${dt}/'
)
