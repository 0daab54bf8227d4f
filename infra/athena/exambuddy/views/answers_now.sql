CREATE OR REPLACE VIEW "answers_now" AS
SELECT
  "answer_id",
  "attempt_id",
  "question_id",
  "selected_answer",
  "is_correct",
  "answered_at",
  "_key_attempt_id",
  "_key_answer_key",
  "dt",
  "_position",
  "_operation",
  "_changed_at",
  "_rescued",
  "_generation"
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY "dt", "_key_attempt_id", "_key_answer_key"
      ORDER BY
        CASE
          WHEN "_operation" = 'SNAPSHOT' THEN 2
          WHEN "_read_at" IS NULL OR "_changed_at" IS NULL THEN 1
          WHEN "_changed_at" > "_read_at" - interval '15' minute THEN 1
          ELSE 3
        END,
        CASE WHEN "_operation" = 'SNAPSHOT' THEN "_changed_at" END DESC NULLS LAST,
        "_position" DESC,
        "_generation" DESC NULLS LAST,
        CASE WHEN "_rescued" IS NULL THEN 0 ELSE 1 END
    ) AS "_newest",
    row_number() OVER (
      PARTITION BY "dt", "_key_attempt_id", "_key_answer_key", "_position"
      ORDER BY
        "_generation" DESC NULLS LAST,
        CASE WHEN "_rescued" IS NULL THEN 0 ELSE 1 END
    ) AS "_copy"
  FROM (
    SELECT
      *,
      max(CASE WHEN "_operation" = 'SNAPSHOT' THEN "_changed_at" END)
        OVER (PARTITION BY "dt", "_key_attempt_id", "_key_answer_key") AS "_read_at"
    FROM "answers_log"
  )
)
WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE') OR "_copy" = 1 AND "_operation" = 'EXPIRE'
