/* The ten repositories with most open issues */
SELECT owner, repo, count(*) AS issues, count(*) FILTER (WHERE status = 'Open') AS open_issues
FROM issues
GROUP BY owner, repo
ORDER BY open_issues DESC, owner, repo
LIMIT 10
