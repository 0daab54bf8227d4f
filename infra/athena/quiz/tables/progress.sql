CREATE EXTERNAL TABLE IF NOT EXISTS `progress`
LOCATION 's3://${bucket}/datasets/progress/'
TBLPROPERTIES ('table_type' = 'DELTA')
