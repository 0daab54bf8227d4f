CREATE EXTERNAL TABLE IF NOT EXISTS `projects_log`
LOCATION 's3://${bucket}/datasets/projects_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
