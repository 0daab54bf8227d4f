CREATE EXTERNAL TABLE IF NOT EXISTS `answers`
LOCATION 's3://${bucket}/datasets/answers/'
TBLPROPERTIES ('table_type' = 'DELTA')
