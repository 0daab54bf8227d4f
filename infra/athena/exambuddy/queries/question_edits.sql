/* Edits of a question's text or right answer after which it was answered right more or less often than before; edits with no answer between them are one */
WITH versions AS (
  SELECT
    dt, project_id, question_id, question_text, correct_answer, "_operation", "_changed_at", "_position",
    row_number() OVER (PARTITION BY dt, project_id, question_id ORDER BY "_changed_at", "_position") AS version_number
  FROM (
    SELECT
      *,
      row_number() OVER (
        PARTITION BY dt, project_id, question_id, "_position", "_changed_at"
        ORDER BY "_generation" DESC NULLS LAST, CASE WHEN "_rescued" IS NULL THEN 0 ELSE 1 END
      ) AS copy_number
    FROM questions_log
    WHERE "_operation" IN ('INSERT', 'MODIFY', 'SNAPSHOT') AND "_changed_at" IS NOT NULL
  ) AS copies
  WHERE copy_number = 1
),
texts AS (
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
  WHERE "_operation" <> 'SNAPSHOT' OR version_number = 1
),
spans AS (
  SELECT
    project_id,
    question_id,
    operation,
    edited_at,
    edit,
    question_text,
    correct_answer,
    row_number() OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS span_number,
    lead(edited_at) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS edited_next
  FROM texts
  WHERE earlier IS NULL
    OR (question_text IS DISTINCT FROM earlier_text)
    OR (correct_answer IS DISTINCT FROM earlier_answer)
),
answered AS (
  SELECT
    s.project_id,
    s.question_id,
    s.operation,
    s.edited_at,
    s.edit,
    s.question_text,
    s.correct_answer,
    count(*) AS answers,
    cast(count(*) FILTER (WHERE a.is_correct) AS double) / count(*) AS correct_rate
  FROM spans AS s
  INNER JOIN answers AS a ON a.question_id = s.question_id
  WHERE (s.span_number = 1 OR a.answered_at >= s.edited_at)
    AND (s.edited_next IS NULL OR a.answered_at < s.edited_next)
  GROUP BY s.project_id, s.question_id, s.operation, s.edited_at, s.edit, s.question_text, s.correct_answer
),
compared AS (
  SELECT
    project_id,
    question_id,
    operation,
    edited_at,
    edit,
    question_text IS DISTINCT FROM lag(question_text) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS text_changed,
    correct_answer IS DISTINCT FROM lag(correct_answer) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS answer_changed,
    lag(answers) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS answers_before,
    lag(correct_rate) OVER (PARTITION BY project_id, question_id ORDER BY edited_at, edit) AS correct_rate_before,
    answers AS answers_after,
    correct_rate AS correct_rate_after
  FROM answered
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
FROM compared
WHERE operation = 'MODIFY'
  AND (text_changed OR answer_changed)
  AND correct_rate_before <> correct_rate_after
ORDER BY
  CASE
    WHEN correct_rate_after > correct_rate_before THEN correct_rate_after - correct_rate_before
    ELSE correct_rate_before - correct_rate_after
  END DESC,
  question_id,
  edited_at,
  edit
