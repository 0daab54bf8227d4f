/* The other measures in the rollup items: each question's answers, and the questions and projects of each admin, counted anew from the datasets */
WITH owners AS (
  SELECT l.project_id, coalesce(max(p.admin_id), max(l.admin_id)) AS admin_id
  FROM projects_log AS l
  LEFT JOIN projects AS p ON p.project_id = l.project_id
  GROUP BY l.project_id
),
homes AS (
  SELECT l.question_id, coalesce(max(q.project_id), max(l.project_id)) AS project_id
  FROM questions_log AS l
  LEFT JOIN questions AS q ON q.question_id = l.question_id
  GROUP BY l.question_id
)
SELECT
  pk,
  sk,
  cast(sum(questions) AS bigint) AS questions,
  cast(sum(projects_active) AS bigint) AS projects_active,
  cast(sum(projects_archived) AS bigint) AS projects_archived,
  cast(sum(answers) AS bigint) AS answers,
  cast(sum(correct) AS bigint) AS correct
FROM (
  SELECT
    'ADMIN#' || o.admin_id AS pk,
    CASE WHEN grouping(q.project_id) = 0 THEN 'ROLLUP#PROJECT#' || q.project_id || '#TOTAL' ELSE 'ROLLUP#TOTAL' END AS sk,
    count(*) AS questions,
    0 AS projects_active,
    0 AS projects_archived,
    0 AS answers,
    0 AS correct
  FROM questions AS q
  JOIN owners AS o ON o.project_id = q.project_id
  WHERE o.admin_id IS NOT NULL
  GROUP BY GROUPING SETS ((o.admin_id), (o.admin_id, q.project_id))
  UNION ALL
  SELECT
    'ADMIN#' || admin_id,
    'ROLLUP#TOTAL',
    0,
    count(*) FILTER (WHERE NOT archived),
    count(*) FILTER (WHERE archived),
    0,
    0
  FROM projects
  WHERE admin_id IS NOT NULL
  GROUP BY admin_id
  UNION ALL
  SELECT
    'PROJECT#' || h.project_id,
    'ROLLUP#QUESTION#' || a.question_id,
    0,
    0,
    0,
    count(*),
    count(*) FILTER (WHERE a.is_correct)
  FROM answers AS a
  JOIN homes AS h ON h.question_id = a.question_id
  WHERE h.project_id IS NOT NULL
  GROUP BY h.project_id, a.question_id
) AS counted
GROUP BY pk, sk
ORDER BY 1, 2
