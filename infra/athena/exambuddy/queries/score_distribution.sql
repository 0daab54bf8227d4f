/* How many completed attempts of each project scored from 0, 10, … 90 % up */
WITH scored AS (
  SELECT
    project_id,
    CASE
      WHEN 10 * score >= 9 * total_questions THEN 90
      WHEN 10 * score >= 8 * total_questions THEN 80
      WHEN 10 * score >= 7 * total_questions THEN 70
      WHEN 10 * score >= 6 * total_questions THEN 60
      WHEN 10 * score >= 5 * total_questions THEN 50
      WHEN 10 * score >= 4 * total_questions THEN 40
      WHEN 10 * score >= 3 * total_questions THEN 30
      WHEN 10 * score >= 2 * total_questions THEN 20
      WHEN 10 * score >= total_questions THEN 10
      ELSE 0
    END AS percent_from
  FROM attempts
  WHERE status = 'COMPLETED' AND score IS NOT NULL AND total_questions > 0
),
bins AS (
  SELECT project_id, percent_from, count(*) AS attempts
  FROM scored
  GROUP BY project_id, percent_from
)
SELECT
  project_id,
  percent_from,
  attempts,
  cast(attempts AS double) / sum(attempts) OVER (PARTITION BY project_id) AS share
FROM bins
ORDER BY project_id NULLS LAST, percent_from
