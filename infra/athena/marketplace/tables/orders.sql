CREATE EXTERNAL TABLE IF NOT EXISTS `orders`
LOCATION 's3://${bucket}/datasets/orders/'
TBLPROPERTIES ('table_type' = 'DELTA')
