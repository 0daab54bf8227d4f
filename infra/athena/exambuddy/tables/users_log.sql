CREATE EXTERNAL TABLE IF NOT EXISTS `users_log` (
  `user_id` string,
  `email` string,
  `name` string,
  `role` string,
  `created_at` timestamp,
  `updated_at` timestamp,
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
LOCATION 's3://${bucket}/datasets/users/'
TBLPROPERTIES (
  'projection.enabled' = 'true',
  'projection.dt.type' = 'date',
  'projection.dt.format' = 'yyyy-MM-dd',
  'projection.dt.range' = '0001-01-01,2049-12-31',
  'projection.dt.interval' = '1',
  'projection.dt.interval.unit' = 'DAYS',
  'storage.location.template' = 's3://${bucket}/datasets/users/dt=${dt}/'
)
