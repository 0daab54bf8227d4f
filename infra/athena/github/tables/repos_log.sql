CREATE EXTERNAL TABLE IF NOT EXISTS `repos_log`
LOCATION 's3://${bucket}/datasets/repos_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
