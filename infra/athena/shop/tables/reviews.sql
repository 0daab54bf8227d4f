CREATE EXTERNAL TABLE IF NOT EXISTS `reviews`
LOCATION 's3://${bucket}/datasets/reviews/'
TBLPROPERTIES ('table_type' = 'DELTA')
