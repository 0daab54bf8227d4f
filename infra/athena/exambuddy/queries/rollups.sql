/* The attempts' measures in the rollup items, of each admin and of each of their projects, by day and in total, counted anew from the dataset */
WITH counted AS (
  SELECT
    coalesce(a.admin_id, p.admin_id) AS admin_id,
    a.project_id,
    a.dt,
    a.status = 'COMPLETED' AS is_completed,
    a.status = 'COMPLETED' AND a.score IS NOT NULL AND a.total_questions > 0 AS is_scored,
    a.score,
    a.total_questions,
    a.time_taken_seconds
  FROM attempts AS a
  LEFT JOIN (SELECT project_id, max(admin_id) AS admin_id FROM projects GROUP BY project_id) AS p ON p.project_id = a.project_id
)
SELECT
  'ADMIN#' || admin_id AS pk,
  CASE
    WHEN grouping(dt) = 0 AND grouping(project_id) = 0 THEN 'ROLLUP#PROJECT#' || project_id || '#DAY#' || dt
    WHEN grouping(dt) = 0 THEN 'ROLLUP#DAY#' || dt
    WHEN grouping(project_id) = 0 THEN 'ROLLUP#PROJECT#' || project_id || '#TOTAL'
    ELSE 'ROLLUP#TOTAL'
  END AS sk,
  count(*) AS attempts,
  count(*) FILTER (WHERE is_completed) AS completed,
  count(*) FILTER (WHERE is_scored AND 100 * score >= 70 * total_questions) AS passed,
  coalesce(sum(CASE WHEN is_scored THEN score END), 0) AS score_sum,
  coalesce(sum(CASE WHEN is_scored THEN total_questions END), 0) AS questions_sum,
  coalesce(sum(CASE WHEN is_scored THEN time_taken_seconds END), 0) AS time_taken_sum,
  count(*) FILTER (WHERE is_scored AND score >= 0 AND 10 * score < total_questions) AS pct_00,
  count(*) FILTER (WHERE is_scored AND 10 * score >= total_questions AND 10 * score < 2 * total_questions) AS pct_10,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 2 * total_questions AND 10 * score < 3 * total_questions) AS pct_20,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 3 * total_questions AND 10 * score < 4 * total_questions) AS pct_30,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 4 * total_questions AND 10 * score < 5 * total_questions) AS pct_40,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 5 * total_questions AND 10 * score < 6 * total_questions) AS pct_50,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 6 * total_questions AND 10 * score < 7 * total_questions) AS pct_60,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 7 * total_questions AND 10 * score < 8 * total_questions) AS pct_70,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 8 * total_questions AND 10 * score < 9 * total_questions) AS pct_80,
  count(*) FILTER (WHERE is_scored AND 10 * score >= 9 * total_questions) AS pct_90
FROM counted
WHERE admin_id IS NOT NULL AND project_id IS NOT NULL
GROUP BY GROUPING SETS ((admin_id, dt), (admin_id, project_id, dt), (admin_id), (admin_id, project_id))
HAVING grouping(dt) = 1 OR dt <> '0001-01-01'
ORDER BY 1, 2
