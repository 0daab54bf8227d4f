CREATE EXTERNAL TABLE IF NOT EXISTS `attempts_log`
LOCATION 's3://${bucket}/datasets/attempts_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
