CREATE EXTERNAL TABLE IF NOT EXISTS `skills_log`
LOCATION 's3://${bucket}/datasets/skills_log/'
TBLPROPERTIES ('table_type' = 'DELTA')
