CREATE EXTERNAL TABLE IF NOT EXISTS `issues`
LOCATION 's3://${bucket}/datasets/issues/'
TBLPROPERTIES ('table_type' = 'DELTA')
