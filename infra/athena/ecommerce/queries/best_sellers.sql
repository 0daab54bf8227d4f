/* The ten items with the highest revenue */
SELECT
  item_id,
  max(description) AS description,
  count(*) AS order_lines,
  sum(quantity) AS units,
  sum(quantity * price) AS revenue
FROM order_items
GROUP BY item_id
ORDER BY revenue DESC NULLS LAST, item_id
LIMIT 10
