CREATE OR REPLACE VIEW "skills" AS
SELECT
  "username",
  "skill_name",
  "proficiency_level",
  "years_of_experience",
  "endorsements",
  "last_used_date",
  "created_at",
  "updated_at",
  "dt",
  "_operation",
  "_changed_at",
  "_rescued"
FROM (
  SELECT
    *,
    row_number() OVER (
      PARTITION BY "dt", "username", "skill_name"
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
        OVER (PARTITION BY "dt", "username", "skill_name") AS "_read_at"
    FROM "skills_log"
    WHERE "dt" = '0001-01-01' OR "dt" BETWEEN '2015-01-01' AND '2049-12-31'
  )
)
WHERE "_newest" = 1 AND "_operation" NOT IN ('REMOVE')
