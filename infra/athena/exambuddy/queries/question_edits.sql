/* Edits of a question's text or right answer after which it was answered right more or less often than since the edit before */
WITH versions AS (
  SELECT dt, project_id, question_id, question_text, correct_answer, "_operation", "_changed_at", "_position"
  FROM (
    SELECT
      *,
      row_number() OVER (
        PARTITION BY dt, project_id, question_id, "_position", "_changed_at"
        ORDER BY CASE WHEN "_rescued" IS NULL THEN 0 ELSE 1 END, question_text, correct_answer
      ) AS copy_number
    FROM questions_log
    WHERE "_operation" IN ('INSERT', 'MODIFY', 'SNAPSHOT') AND "_changed_at" IS NOT NULL
  ) AS copies
  WHERE copy_number = 1
),
compared AS (
  SELECT
    project_id,
    question_id,
    "_operation" AS operation,
    "_changed_at" AS edited_at,
    "_position" AS edit,
    question_text,
    correct_answer,
    lag("_operation") OVER (PARTITION BY dt, project_id, question_id ORDER BY "_changed_at", "_position") AS earlier,
    lag(question_text) OVER (PARTITION BY dt, project_id, question_id ORDER BY "_changed_at", "_position") AS earlier_text,
    lag(correct_answer) OVER (PARTITION BY dt, project_id, question_id ORDER BY "_changed_at", "_position") AS earlier_answer
  FROM versions
),
edits AS (
  SELECT
    project_id,
    question_id,
    edited_at,
    edit,
    question_text IS DISTINCT FROM earlier_text AS text_changed,
    correct_answer IS DISTINCT FROM earlier_answer AS answer_changed,
    lag(edited_at) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS edited_before,
    lead(edited_at) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS edited_next
  FROM compared
  WHERE operation = 'MODIFY'
    AND earlier IS NOT NULL
    AND ((question_text IS DISTINCT FROM earlier_text) OR (correct_answer IS DISTINCT FROM earlier_answer))
),
results AS (
  SELECT
    e.project_id,
    e.question_id,
    e.edited_at,
    e.edit,
    e.text_changed,
    e.answer_changed,
    count(*) FILTER (WHERE a.answered_at < e.edited_at) AS answers_before,
    count(*) FILTER (WHERE a.answered_at < e.edited_at AND a.is_correct) AS correct_before,
    count(*) FILTER (WHERE a.answered_at >= e.edited_at) AS answers_after,
    count(*) FILTER (WHERE a.answered_at >= e.edited_at AND a.is_correct) AS correct_after
  FROM edits AS e
  INNER JOIN answers AS a ON a.question_id = e.question_id
  WHERE (e.edited_before IS NULL OR a.answered_at >= e.edited_before)
    AND (e.edited_next IS NULL OR a.answered_at < e.edited_next)
  GROUP BY e.project_id, e.question_id, e.edited_at, e.edit, e.text_changed, e.answer_changed
),
rates AS (
  SELECT
    project_id,
    question_id,
    edited_at,
    edit,
    text_changed,
    answer_changed,
    answers_before,
    cast(correct_before AS double) / nullif(answers_before, 0) AS correct_rate_before,
    answers_after,
    cast(correct_after AS double) / nullif(answers_after, 0) AS correct_rate_after
  FROM results
)
SELECT
  project_id,
  question_id,
  edited_at,
  text_changed,
  answer_changed,
  answers_before,
  correct_rate_before,
  answers_after,
  correct_rate_after,
  correct_rate_after - correct_rate_before AS correct_rate_change
FROM rates
WHERE correct_rate_before <> correct_rate_after
ORDER BY
  CASE
    WHEN correct_rate_after > correct_rate_before THEN correct_rate_after - correct_rate_before
    ELSE correct_rate_before - correct_rate_after
  END DESC,
  question_id,
  edited_at,
  edit
