CREATE EXTERNAL TABLE IF NOT EXISTS `usage_log`
LOCATION 's3://${bucket}/datasets/usage_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
