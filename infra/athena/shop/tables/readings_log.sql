CREATE EXTERNAL TABLE IF NOT EXISTS `readings_log`
LOCATION 's3://${bucket}/datasets/readings_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
