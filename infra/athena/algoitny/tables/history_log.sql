CREATE EXTERNAL TABLE IF NOT EXISTS `history_log`
LOCATION 's3://${bucket}/datasets/history_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
