/* How many of the completed attempts passed (70 % or more), by project and week; a week begins on Monday */
WITH weeks AS (
  SELECT
    project_id,
    cast(date_trunc('week', cast(dt AS date)) AS date) AS week_begin,
    count(*) AS attempts,
    count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE status = 'COMPLETED' AND total_questions > 0 AND 100 * score >= 70 * total_questions) AS passed
  FROM attempts
  WHERE dt <> '0001-01-01'
  GROUP BY project_id, cast(date_trunc('week', cast(dt AS date)) AS date)
)
SELECT
  w.project_id,
  p.title,
  w.week_begin,
  w.attempts,
  w.completed,
  w.passed,
  cast(w.passed AS double) / nullif(w.completed, 0) AS pass_rate
FROM weeks AS w
LEFT JOIN (SELECT project_id, max(title) AS title FROM projects GROUP BY project_id) AS p ON p.project_id = w.project_id
ORDER BY w.project_id NULLS LAST, w.week_begin
