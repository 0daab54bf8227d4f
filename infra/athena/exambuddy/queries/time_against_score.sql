/* How long completed attempts took, by project and by the tens of percent that they scored */
WITH timed AS (
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
    END AS percent_from,
    time_taken_seconds,
    total_questions
  FROM attempts
  WHERE status = 'COMPLETED' AND score IS NOT NULL AND total_questions > 0 AND time_taken_seconds IS NOT NULL
),
ranked AS (
  SELECT
    project_id,
    percent_from,
    time_taken_seconds,
    total_questions,
    row_number() OVER (PARTITION BY project_id, percent_from ORDER BY time_taken_seconds) AS place,
    count(*) OVER (PARTITION BY project_id, percent_from) AS places
  FROM timed
)
SELECT
  project_id,
  percent_from,
  count(*) AS attempts,
  cast(sum(time_taken_seconds) AS double) / count(*) AS mean_seconds,
  min(CASE WHEN 2 * place >= places THEN time_taken_seconds END) AS median_seconds,
  cast(sum(time_taken_seconds) AS double) / sum(total_questions) AS seconds_per_question
FROM ranked
GROUP BY project_id, percent_from
ORDER BY project_id NULLS LAST, percent_from
