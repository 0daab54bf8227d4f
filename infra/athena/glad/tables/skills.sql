CREATE EXTERNAL TABLE IF NOT EXISTS `skills`
LOCATION 's3://${bucket}/datasets/skills/'
TBLPROPERTIES ('table_type' = 'DELTA')
