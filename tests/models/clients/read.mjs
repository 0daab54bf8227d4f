// Answers requests with a client in TypeScript, compiled to JavaScript.
//
// Usage: node read.mjs CLIENT TABLE ENDPOINT REQUESTS
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [path, table, endpoint, requests] = process.argv.slice(2);
const load = createRequire(pathToFileURL(path));
const { DynamoDBClient } = load("@aws-sdk/client-dynamodb");
const library = await import(pathToFileURL(path));
const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const client = new DynamoDBClient({ endpoint, region: "eu-west-1", credentials });
const rollups = new library.Rollups({ table, client });

function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof library.Rollup) {
    const { key, exists, measures } = value;
    return { key, exists, measures: plain(measures) };
  }
  if (value instanceof library.MeasuredValues) return plain(value.measures);
  if (typeof value === "bigint" || typeof value === "number") return String(value);
  if (value === null || typeof value !== "object") return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([name, value]) => [name, plain(value)]));
}

async function all(iterable) {
  const items = [];
  for await (const item of iterable) items.push(item);
  return items;
}

const calls = {
  get: (reader, [key], options) => reader.get(key, options),
  numbers: async (reader, [key]) => JSON.stringify((await reader.get(key)).numbers),
  get_many: (reader, [keys], options) => reader.getMany(keys, options),
  list: (reader, [prefix], options) => reader.list(prefix, options),
  all: (reader, [prefix], options) => all(reader.all(prefix, options)),
  total: async (reader, [prefix]) => reader.total(await all(reader.all(prefix))),
  percentile: async (reader, [prefix, of, percent]) =>
    reader.total(await all(reader.all(prefix))).percentile(of, percent),
  average: async (reader, [key, sum, count]) => (await reader.get(key)).average(sum, count),
  range: (reader, [series, from, to], options) => reader.range(series, from, to, options),
  moments: (reader, [series, from, to]) => reader.range(series, new Date(from), new Date(to)),
  bucket: (reader, [moment, zone]) => reader.bucket(new Date(moment), zone),
  top: (reader, [group, count]) => reader.top(group, count),
  around: (reader, [key, count]) => reader.around(key, count),
  rank_of: (reader, [key]) => reader.rankOf(key),
  mirrors: (_, [name, item]) => library[name](item),
};

async function answer({ reader, call, args, options }) {
  try {
    return plain(await calls[call](rollups[reader], args, options));
  } catch (error) {
    return { error: `${error.name}: ${error.message}` };
  }
}

const answers = [];
for (const request of JSON.parse(readFileSync(requests, "utf8"))) answers.push(await answer(request));
process.stdout.write(JSON.stringify(answers));
