CREATE EXTERNAL TABLE IF NOT EXISTS `photos`
LOCATION 's3://${bucket}/datasets/photos/'
TBLPROPERTIES ('table_type' = 'DELTA')
