CREATE EXTERNAL TABLE IF NOT EXISTS `usage`
LOCATION 's3://${bucket}/datasets/usage/'
TBLPROPERTIES ('table_type' = 'DELTA')
