/* The 20 candidates with the most attempts, by name */
WITH candidates AS (
  SELECT
    candidate_id,
    count(*) AS attempts,
    count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
    count(*) FILTER (WHERE status = 'COMPLETED' AND total_questions > 0 AND 100 * score >= 70 * total_questions) AS passed,
    max(CASE WHEN status = 'COMPLETED' AND total_questions > 0 THEN cast(100 * score AS double) / total_questions END) AS best_percent
  FROM attempts
  GROUP BY candidate_id
),
names AS (
  SELECT user_id, min("name") AS "name", min(email) AS email
  FROM users
  GROUP BY user_id
)
SELECT n."name", n.email, c.candidate_id, c.attempts, c.completed, c.passed, c.best_percent
FROM candidates AS c
LEFT JOIN names AS n ON n.user_id = c.candidate_id
ORDER BY c.attempts DESC, c.candidate_id NULLS LAST
LIMIT 20
