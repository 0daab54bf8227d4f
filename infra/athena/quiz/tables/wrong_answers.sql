CREATE EXTERNAL TABLE IF NOT EXISTS `wrong_answers`
LOCATION 's3://${bucket}/datasets/wrong_answers/'
TBLPROPERTIES ('table_type' = 'DELTA')
