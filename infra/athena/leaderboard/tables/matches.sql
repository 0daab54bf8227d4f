CREATE EXTERNAL TABLE IF NOT EXISTS `matches`
LOCATION 's3://${bucket}/datasets/matches/'
TBLPROPERTIES ('table_type' = 'DELTA')
