CREATE EXTERNAL TABLE IF NOT EXISTS `repos`
LOCATION 's3://${bucket}/datasets/repos/'
TBLPROPERTIES ('table_type' = 'DELTA')
