/* Calls and errors of each tenant */
SELECT tenant, count(*) AS calls, count(*) FILTER (WHERE status >= 500) AS errors
FROM calls
GROUP BY tenant
ORDER BY calls DESC, tenant
