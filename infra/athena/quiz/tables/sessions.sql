CREATE EXTERNAL TABLE IF NOT EXISTS `sessions`
LOCATION 's3://${bucket}/datasets/sessions/'
TBLPROPERTIES ('table_type' = 'DELTA')
