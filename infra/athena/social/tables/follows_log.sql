CREATE EXTERNAL TABLE IF NOT EXISTS `follows_log`
LOCATION 's3://${bucket}/datasets/follows_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
