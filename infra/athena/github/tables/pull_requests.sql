CREATE EXTERNAL TABLE IF NOT EXISTS `pull_requests`
LOCATION 's3://${bucket}/datasets/pull_requests/'
TBLPROPERTIES ('table_type' = 'DELTA')
