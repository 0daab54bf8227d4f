// Calls the JavaScript example of docs/COOKBOOK.md, which is beside this file, and prints the results as JSON.
//
// Usage: node read_rollups.mjs TABLE

import { readAround, readBuckets, readRank, readRanked, readSharded, readTop } from "./rollups.mjs";

const [table] = process.argv.slice(2);
const chess = { table, group: "score#GAME#chess", measure: "points", shards: 2 };
const checkers = { table, group: "score#GAME#checkers", measure: "points" };
const values = async (rollups, attribute) => (await rollups).map((rollup) => rollup[attribute]);
const buckets = readBuckets(table, "REPO", "ROLLUP#DAY#2026-02-01", "ROLLUP#DAY#2026-02-28");
const result = {
  sharded: (await readSharded(table, "ORDERS", "ROLLUP", 120, ["orders"])).orders,
  buckets: await values(buckets, "SK"),
  ranked: await values(readRanked(table, "SALES", "ITEM#", "orders", 2), "SK"),
  top: await values(readTop(chess, 3), "points"),
  around: await values(readAround(chess, 50, 2), "points"),
  ranks: await Promise.all([90, 70, 50, 10].map((value) => readRank(chess, value))),
  only: await values(readTop(checkers, 3), "points"),
};
console.log(JSON.stringify(result));
