/* Every attempt of a month, across all projects: of the newest month there is; for another put dt BETWEEN two days in place of the join with days */
WITH days AS (
  SELECT DISTINCT dt
  FROM attempts
  WHERE substr(dt, 1, 7) = (SELECT max(substr(dt, 1, 7)) FROM attempts WHERE dt <> '0001-01-01')
)
SELECT
  a.attempt_id,
  a.project_id,
  p.title,
  a.candidate_id,
  a.status,
  a.started_at,
  a.completed_at,
  a.score,
  a.total_questions,
  a.time_taken_seconds
FROM attempts AS a
INNER JOIN days AS d ON d.dt = a.dt
LEFT JOIN (SELECT project_id, max(title) AS title FROM projects GROUP BY project_id) AS p ON p.project_id = a.project_id
ORDER BY a.started_at NULLS LAST, a.candidate_id NULLS LAST, a.attempt_id NULLS LAST, a."_position"
