CREATE EXTERNAL TABLE IF NOT EXISTS `wrong_answers_log`
LOCATION 's3://${bucket}/datasets/wrong_answers_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
