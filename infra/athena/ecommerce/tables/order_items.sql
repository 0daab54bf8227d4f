CREATE EXTERNAL TABLE IF NOT EXISTS `order_items`
LOCATION 's3://${bucket}/datasets/order_items/'
TBLPROPERTIES ('table_type' = 'DELTA')
