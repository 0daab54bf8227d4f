CREATE EXTERNAL TABLE IF NOT EXISTS `sessions_log`
LOCATION 's3://${bucket}/datasets/sessions_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
