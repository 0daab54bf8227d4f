CREATE EXTERNAL TABLE IF NOT EXISTS `comments`
LOCATION 's3://${bucket}/datasets/comments/'
TBLPROPERTIES ('table_type' = 'DELTA')
