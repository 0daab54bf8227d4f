CREATE EXTERNAL TABLE IF NOT EXISTS `attempts`
LOCATION 's3://${bucket}/datasets/attempts/'
TBLPROPERTIES ('table_type' = 'DELTA')
