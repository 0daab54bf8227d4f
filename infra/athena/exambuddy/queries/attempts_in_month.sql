/* Every attempt of this month, across all projects; for another month put its first and its last day into the condition on dt. Only the files of these days are read */
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
LEFT JOIN (SELECT project_id, max(title) AS title FROM projects GROUP BY project_id) AS p ON p.project_id = a.project_id
WHERE a.dt BETWEEN substr(CAST(current_date AS varchar), 1, 7) || '-01' AND substr(CAST(current_date AS varchar), 1, 7) || '-31'
ORDER BY a.started_at NULLS LAST, a.candidate_id NULLS LAST, a.attempt_id NULLS LAST, a."_position"
