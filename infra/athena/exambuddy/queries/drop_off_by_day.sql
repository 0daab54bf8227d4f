/* How many attempts were started and never completed, by the day they were started on */
SELECT
  dt AS "day",
  count(*) AS started,
  count(*) FILTER (WHERE status = 'COMPLETED') AS completed,
  count(*) - count(*) FILTER (WHERE status = 'COMPLETED') AS never_completed,
  cast(count(*) - count(*) FILTER (WHERE status = 'COMPLETED') AS double) / count(*) AS drop_off
FROM attempts
WHERE dt <> '0001-01-01'
GROUP BY dt
ORDER BY dt
