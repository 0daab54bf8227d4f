CREATE EXTERNAL TABLE IF NOT EXISTS `questions`
LOCATION 's3://${bucket}/datasets/questions/'
TBLPROPERTIES ('table_type' = 'DELTA')
