CREATE EXTERNAL TABLE IF NOT EXISTS `order_items_log`
LOCATION 's3://${bucket}/datasets/order_items_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
