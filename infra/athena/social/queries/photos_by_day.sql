/* Photos by day */
SELECT dt, count(*) AS photos FROM photos GROUP BY dt ORDER BY dt
