CREATE EXTERNAL TABLE IF NOT EXISTS `matches_log`
LOCATION 's3://${bucket}/datasets/matches_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
