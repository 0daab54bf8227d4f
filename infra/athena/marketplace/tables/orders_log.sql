CREATE EXTERNAL TABLE IF NOT EXISTS `orders_log`
LOCATION 's3://${bucket}/datasets/orders_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
