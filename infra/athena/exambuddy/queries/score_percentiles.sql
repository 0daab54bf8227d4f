/* Percentiles of the completed attempts' scores in percent, by project: each is a score that was reached (nearest rank) */
WITH ranked AS (
  SELECT
    project_id,
    cast(100 * score AS double) / total_questions AS percent,
    row_number() OVER (PARTITION BY project_id ORDER BY cast(100 * score AS double) / total_questions) AS place,
    count(*) OVER (PARTITION BY project_id) AS places
  FROM attempts
  WHERE status = 'COMPLETED' AND score IS NOT NULL AND total_questions > 0
)
SELECT
  project_id,
  count(*) AS attempts,
  min(percent) AS lowest,
  min(CASE WHEN 100 * place >= 10 * places THEN percent END) AS percentile_10,
  min(CASE WHEN 100 * place >= 25 * places THEN percent END) AS percentile_25,
  min(CASE WHEN 100 * place >= 50 * places THEN percent END) AS median,
  min(CASE WHEN 100 * place >= 75 * places THEN percent END) AS percentile_75,
  min(CASE WHEN 100 * place >= 90 * places THEN percent END) AS percentile_90,
  max(percent) AS highest
FROM ranked
GROUP BY project_id
ORDER BY project_id NULLS LAST
