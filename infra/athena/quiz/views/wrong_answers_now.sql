CREATE OR REPLACE VIEW "wrong_answers_now" AS
SELECT
  "user_id",
  "missed_at",
  "question_id",
  "session_id",
  "remaining_tries",
  "last_attempt_at",
  "shuffled_answers",
  "attempts",
  "_key_userid",
  "_key_timestamp",
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
      PARTITION BY "dt", "_key_userid", "_key_timestamp"
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
    ) AS "_newest"
  FROM (
    SELECT
      *,
      max(CASE WHEN "_operation" = 'SNAPSHOT' THEN "_changed_at" END)
        OVER (PARTITION BY "dt", "_key_userid", "_key_timestamp") AS "_read_at"
    FROM "wrong_answers_log"
  )
)
WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE')
