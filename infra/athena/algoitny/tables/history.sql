CREATE EXTERNAL TABLE IF NOT EXISTS `history`
LOCATION 's3://${bucket}/datasets/history/'
TBLPROPERTIES ('table_type' = 'DELTA')
