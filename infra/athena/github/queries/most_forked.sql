/* The repositories of which most forks exist */
SELECT source_owner, source_repo, count(*) AS forks
FROM repos
WHERE source_repo IS NOT NULL
GROUP BY source_owner, source_repo
ORDER BY forks DESC, source_owner, source_repo
LIMIT 10
