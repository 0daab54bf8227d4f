CREATE EXTERNAL TABLE IF NOT EXISTS `users`
LOCATION 's3://${bucket}/datasets/users/'
TBLPROPERTIES ('table_type' = 'DELTA')
