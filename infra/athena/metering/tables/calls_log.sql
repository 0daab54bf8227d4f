CREATE EXTERNAL TABLE IF NOT EXISTS `calls_log`
LOCATION 's3://${bucket}/datasets/calls_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
