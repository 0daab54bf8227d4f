CREATE EXTERNAL TABLE IF NOT EXISTS `comments_log`
LOCATION 's3://${bucket}/datasets/comments_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
