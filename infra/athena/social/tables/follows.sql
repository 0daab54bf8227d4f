CREATE EXTERNAL TABLE IF NOT EXISTS `follows`
LOCATION 's3://${bucket}/datasets/follows/'
TBLPROPERTIES ('table_type' = 'DELTA')
