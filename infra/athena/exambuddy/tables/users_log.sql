CREATE EXTERNAL TABLE IF NOT EXISTS `users_log`
LOCATION 's3://${bucket}/datasets/users_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
