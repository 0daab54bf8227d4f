CREATE OR REPLACE VIEW "matches_now" AS
SELECT
  "match_id",
  "player",
  "game",
  "score",
  "outcome",
  "ended_at",
  "_key_player",
  "_key_match_id",
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
      PARTITION BY "dt", "_key_player", "_key_match_id"
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
      PARTITION BY "dt", "_key_player", "_key_match_id", "_position"
      ORDER BY
        "_generation" DESC NULLS LAST,
        CASE WHEN "_rescued" IS NULL THEN 0 ELSE 1 END
    ) AS "_copy"
  FROM (
    SELECT
      *,
      max(CASE WHEN "_operation" = 'SNAPSHOT' THEN "_changed_at" END)
        OVER (PARTITION BY "dt", "_key_player", "_key_match_id") AS "_read_at"
    FROM "matches_log"
  )
)
WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE', 'EXPIRE') OR "_copy" = 1 AND "_operation" = 'EXPIRE'
