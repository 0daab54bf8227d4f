CREATE EXTERNAL TABLE IF NOT EXISTS `pull_requests_log`
LOCATION 's3://${bucket}/datasets/pull_requests_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
