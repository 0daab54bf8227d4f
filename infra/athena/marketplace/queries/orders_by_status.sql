/* Orders and their amount by status */
SELECT status, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY status ORDER BY orders DESC, status NULLS LAST
