CREATE EXTERNAL TABLE IF NOT EXISTS `issues_log`
LOCATION 's3://${bucket}/datasets/issues_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
