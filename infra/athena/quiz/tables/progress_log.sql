CREATE EXTERNAL TABLE IF NOT EXISTS `progress_log`
LOCATION 's3://${bucket}/datasets/progress_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
