CREATE EXTERNAL TABLE IF NOT EXISTS `calls`
LOCATION 's3://${bucket}/datasets/calls/'
TBLPROPERTIES ('table_type' = 'DELTA')
