CREATE EXTERNAL TABLE IF NOT EXISTS `reviews_log`
LOCATION 's3://${bucket}/datasets/reviews_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
