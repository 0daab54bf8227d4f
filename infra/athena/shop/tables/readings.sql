CREATE EXTERNAL TABLE IF NOT EXISTS `readings`
LOCATION 's3://${bucket}/datasets/readings/'
TBLPROPERTIES ('table_type' = 'DELTA')
