CREATE EXTERNAL TABLE IF NOT EXISTS `projects`
LOCATION 's3://${bucket}/datasets/projects/'
TBLPROPERTIES ('table_type' = 'DELTA')
