CREATE EXTERNAL TABLE IF NOT EXISTS `questions_log`
LOCATION 's3://${bucket}/datasets/questions_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
