/* The ten users whom most users follow */
SELECT followed, count(*) AS followers FROM follows GROUP BY followed ORDER BY followers DESC, followed LIMIT 10
