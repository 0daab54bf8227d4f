CREATE EXTERNAL TABLE IF NOT EXISTS `photos_log`
LOCATION 's3://${bucket}/datasets/photos_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
