/* The ten players with the highest ratio of wins to losses, of at least five matches */
SELECT
  player,
  count(*) AS matches,
  count(*) FILTER (WHERE outcome = 'WIN') AS wins,
  count(*) FILTER (WHERE outcome = 'LOSS') AS losses,
  CAST(count(*) FILTER (WHERE outcome = 'WIN') AS DOUBLE) / nullif(count(*) FILTER (WHERE outcome = 'LOSS'), 0) AS ratio
FROM matches
GROUP BY player
HAVING count(*) >= 5
ORDER BY ratio DESC NULLS LAST, player
LIMIT 10
