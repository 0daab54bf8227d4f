/* Attempts across all projects, by month */
SELECT
  substr(dt, 1, 7) AS "month",
  count(*) AS attempts,
  count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
  count(*) FILTER (WHERE status = 'COMPLETED' AND total_questions > 0 AND 100 * score >= 70 * total_questions) AS passed,
  count(DISTINCT candidate_id) AS candidates,
  count(DISTINCT project_id) AS projects
FROM attempts
WHERE dt <> '0001-01-01'
GROUP BY substr(dt, 1, 7)
ORDER BY 1
