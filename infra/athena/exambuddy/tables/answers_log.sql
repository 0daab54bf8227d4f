CREATE EXTERNAL TABLE IF NOT EXISTS `answers_log`
LOCATION 's3://${bucket}/datasets/answers_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
