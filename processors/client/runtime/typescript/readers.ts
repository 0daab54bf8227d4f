import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import type { QueryCommandInput } from "@aws-sdk/client-dynamodb";
import type { TimeBucket } from "./buckets";
import { bucketOf, bucketText, parseBucket } from "./buckets";
import type { KeyValues, StoredKey, TemplateField } from "./keys";
import { KeyPattern } from "./keys";
import type { MeasureDefinition, StoredItem } from "./measures";
import { MeasuredValues, compareTexts, storedInteger } from "./measures";
import { storedMeasures, storedText, totalMeasures } from "./measures";
import type { ReadOptions, RollupSource } from "./state";
import { StateTable, inParallel } from "./state";

/** How a range of buckets is read. */
export interface RangeOptions extends ReadOptions {
  /** Whether buckets in which nothing was counted are there too, with zeros. Default: false. */
  zeros?: boolean;
}

/** How rollups are listed. */
export interface ListOptions extends ReadOptions {
  /** The most rollups of a page. Default: 100. */
  limit?: number;
  /** The cursor of the page before. */
  cursor?: string | undefined;
}

/** A stored rollup and its place in the model. */
export interface RollupDefinition {
  rollup: string;
  partition: string;
  sort: string;
  escaped: boolean;
  shards: number;
  /** Whether an item without a count is as good as absent. */
  skipsZero: boolean;
  measures: Record<string, MeasureDefinition>;
}

/** The types of a rollup. */
export interface RollupTypes {
  key: object;
  prefix: object;
  measures: object;
  totals: object;
  percentiles: string;
}

/** The types of a rollup with a time in its key. */
export interface BucketTypes extends RollupTypes {
  series: object;
}

/** The measures of several rollups together. */
export type RollupTotals<T extends RollupTypes> = MeasuredValues<
  T["totals"],
  T["percentiles"]
>;

/** A rollup. */
export class Rollup<T extends RollupTypes> extends MeasuredValues<
  T["measures"],
  T["percentiles"]
> {
  readonly key: T["key"];
  /** The items of the rollup, as they are stored: none, one, or one for each shard. */
  readonly items: readonly StoredItem[];
  /** Whether anything was counted yet. Otherwise the counts and sums are 0. */
  readonly exists: boolean;
  /** The number of changes so far. */
  readonly rev: bigint;
  /** When the newest change of the last write was made, for information: a change that is delivered late, or again, takes it back. */
  readonly updatedAt: string | undefined;
  /** From then on, time to live deletes the rollup. */
  readonly expiresAt: Date | undefined;

  constructor(
    key: T["key"],
    items: StoredItem[],
    definition: RollupDefinition,
  ) {
    const measures = storedMeasures(items, definition.measures);
    super(measures as T["measures"], definition.measures);
    const newest = (values: (string | undefined)[]) => values.sort().at(-1);
    const expiry = newest(items.map((item) => item["expires_at"]?.N));
    this.key = key;
    this.items = items;
    this.exists = items.length > 0;
    this.rev = items.reduce(
      (sum, item) => sum + (storedInteger(item["rev"]) ?? 0n),
      0n,
    );
    this.updatedAt = newest(items.map((item) => item["updated_at"]?.S));
    this.expiresAt =
      expiry === undefined ? undefined : new Date(Number(expiry) * 1000);
  }
}

/** A page of a list. */
export interface RollupPage<T extends RollupTypes> {
  rollups: Rollup<T>[];
  /** Names the next page; undefined after the last page. */
  cursor: string | undefined;
}

/** The largest number of buckets in a range. */
const MAX_BUCKETS = 100_000;
/** Reads a rollup. */
export class RollupReader<T extends RollupTypes> {
  protected readonly state: StateTable;
  protected readonly definition: RollupDefinition;
  protected readonly keys: KeyPattern;

  constructor(source: RollupSource, definition: RollupDefinition) {
    const { rollup, partition, sort, escaped } = definition;
    this.state = new StateTable(source);
    this.definition = definition;
    this.keys = new KeyPattern(rollup, partition, sort, escaped);
  }

  /** The rollup with this key. If nothing was counted yet, its counts and sums are 0. */
  async get(key: T["key"], options: ReadOptions = {}): Promise<Rollup<T>> {
    const [rollup] = await this.getMany([key], options);
    return rollup ?? new Rollup(key, [], this.definition);
  }

  /** The rollups with these keys, in the order of the keys. */
  async getMany(
    keys: T["key"][],
    options: ReadOptions = {},
  ): Promise<Rollup<T>[]> {
    const stored = keys.map((key) => this.keys.write(key));
    const wanted = new Map<string, StoredKey>();
    for (const key of stored.flatMap((key) => this.shards(key))) {
      wanted.set(JSON.stringify([key.partition, key.sort]), key);
    }
    const isConsistent = this.state.isConsistentFor(options);
    const items = await this.state.items([...wanted.values()], isConsistent);
    const found = new Map<string, StoredItem>();
    for (const item of items) {
      found.set(JSON.stringify([item["PK"]?.S, item["SK"]?.S]), item);
    }
    return keys.map((key, place) => {
      const own = stored.slice(place, place + 1);
      const shards = own.flatMap((key) => this.shards(key));
      const items = shards.map(({ partition, sort }) =>
        found.get(JSON.stringify([partition, sort])),
      );
      const present = items.filter((item) => item !== undefined);
      return new Rollup<T>(key, present, this.definition);
    });
  }

  /** A page of the rollups whose keys have these values, in the order of their sort keys. */
  async list(
    prefix: T["prefix"],
    options: ListOptions = {},
  ): Promise<RollupPage<T>> {
    const limit = options.limit ?? 100;
    if (!Number.isInteger(limit) || limit < 1) {
      throw new RangeError("write a limit of 1 or more");
    }
    const { partition, sort } = this.keys.writePrefix(prefix);
    const condition = sort === "" ? "" : " AND begins_with(SK, :sort)";
    const values: StoredItem = sort === "" ? {} : { ":sort": { S: sort } };
    const found = await this.grouped(
      partition,
      condition,
      values,
      prefix,
      options,
      limit + 1,
      options.cursor,
    );
    const rollups = found.slice(0, limit);
    const last = rollups.at(-1);
    const cursor = found.length > limit ? last?.sort : undefined;
    return { rollups: rollups.map(({ rollup }) => rollup), cursor };
  }

  /** All rollups whose keys have these values, in the order of their sort keys, page by page. */
  async *all(
    prefix: T["prefix"],
    options: ListOptions = {},
  ): AsyncGenerator<Rollup<T>, void, undefined> {
    let cursor = options.cursor;
    do {
      const page = await this.list(prefix, { ...options, cursor });
      yield* page.rollups;
      cursor = page.cursor;
    } while (cursor !== undefined);
  }

  /**
   * The measures of several rollups together: sums of counts and sums, averages and percentiles of all of their items,
   * extremes. Numbers of different values do not add up, and are left out.
   */
  total(rollups: Iterable<Rollup<T>>): RollupTotals<T> {
    const items = Array.from(rollups, (rollup) => rollup.items).flat();
    const definitions = this.definition.measures;
    const measures = totalMeasures(items, definitions) as T["totals"];
    return new MeasuredValues(measures, definitions);
  }

  /** The bins of a measure, in the order of its counts: where each begins, or the estimate of its values. */
  bins(measure: keyof T["measures"] & string): string[] {
    const definition = this.definition.measures[measure];
    return definition && "bins" in definition
      ? Object.values(definition.bins)
      : [];
  }

  /** The items of a key: one, or one for each shard. */
  protected shards({ partition, sort }: StoredKey): StoredKey[] {
    const { shards } = this.definition;
    if (shards === 1) return [{ partition, sort }];
    return Array.from({ length: shards }, (_, shard) => ({
      partition: `${partition}#SHARD#${shard}`,
      sort,
    }));
  }

  /** The rollup's values in the key of an item; undefined if the item is of another rollup. */
  protected keyOf(item: StoredItem): KeyValues | undefined {
    const { shards, measures, skipsZero } = this.definition;
    const stored = item["PK"]?.S ?? "";
    const partition = shards > 1 ? stored.replace(/#SHARD#\d+$/, "") : stored;
    const sort = item["SK"]?.S ?? "";
    const key = this.keys.read(partition, sort);
    if (!key) return undefined;
    // Rollups whose keys can be equal have different measures.
    const has = (name: string) => storedText(item[name]) !== undefined;
    const isOwn = Object.entries(measures).some(([name, definition]) =>
      "bins" in definition ? Object.keys(definition.bins).some(has) : has(name),
    );
    const isZero = Object.keys(measures).every(
      (name) => !storedInteger(item[name]),
    );
    return isOwn && !(skipsZero && isZero) ? key : undefined;
  }

  /** The rollups of a partition that meet a condition and have the wanted values, in the order of their sort keys. */
  protected async grouped(
    partition: string,
    condition: string,
    values: StoredItem,
    wanted: object,
    options: ReadOptions,
    enough = Infinity,
    after?: string,
  ): Promise<{ sort: string; rollup: Rollup<T> }[]> {
    const shards = this.shards({ partition, sort: "" });
    const given = wanted as Partial<KeyValues>;
    const isWanted = (item: StoredItem) => {
      const key = this.keyOf(item);
      // The beginning of a key can be that of another value, too.
      const isGiven = ([name, value]: [string, string]) =>
        (given[name] ?? value) === value;
      return key !== undefined && Object.entries(key).every(isGiven);
    };
    const read = (shard: StoredKey) => {
      const key: AttributeValue = { S: shard.partition };
      const query: Omit<QueryCommandInput, "TableName"> = {
        KeyConditionExpression: `PK = :partition${condition}`,
        ExpressionAttributeValues: { ":partition": key, ...values },
        ConsistentRead: this.state.isConsistentFor(options),
      };
      if (after !== undefined) {
        query.ExclusiveStartKey = { PK: key, SK: { S: after } };
      }
      if (enough < 1000) query.Limit = enough;
      return this.state.query(query, isWanted, enough);
    };
    const groups = new Map<string, StoredItem[]>();
    for (const item of (await inParallel(shards, read)).flat()) {
      const sort = item["SK"]?.S ?? "";
      groups.set(sort, [...(groups.get(sort) ?? []), item]);
    }
    const sorted = [...groups].sort(([left], [right]) =>
      compareTexts(left, right),
    );
    return sorted.slice(0, enough).map(([sort, items]) => {
      const key = items[0] && this.keyOf(items[0]);
      return {
        sort,
        rollup: new Rollup<T>(key as T["key"], items, this.definition),
      };
    });
  }
}

/** Reads a rollup with a time in its key. */
export class BucketReader<T extends BucketTypes> extends RollupReader<T> {
  /**
   * The rollups from one bucket of time to another, both included, in the order of time. A moment stands for the bucket
   * that it is in.
   */
  async range(
    series: T["series"],
    from: string | Date,
    to: string | Date,
    options: RangeOptions = {},
  ): Promise<Rollup<T>[]> {
    const field = this.field();
    const [first, last] = [from, to].map((end) =>
      typeof end === "string" ? end : this.bucket(end),
    );
    const key = (bucket: string | undefined) =>
      ({ ...series, [field.name]: bucket }) as T["key"];
    const begin = this.keys.write(key(first));
    const end = this.keys.write(key(last));
    const { fields, after } = this.keys.sort;
    const isLast = after === "" && fields.at(-1) === field;
    const isOnce =
      this.keys.fields.filter(({ name }) => name === field.name).length === 1;
    if (!isLast || !isOnce) {
      const keys = this.buckets(first, last).map(key);
      const rollups = await this.getMany(keys, options);
      return rollups.filter(({ exists }) => exists || options.zeros);
    }
    if (begin.sort > end.sort) return [];
    const found = await this.grouped(
      begin.partition,
      " AND SK BETWEEN :first AND :last",
      { ":first": { S: begin.sort }, ":last": { S: end.sort } },
      series,
      options,
    );
    if (!options.zeros) return found.map(({ rollup }) => rollup);
    const bySort = new Map(found.map(({ sort, rollup }) => [sort, rollup]));
    return this.buckets(first, last).map((bucket) => {
      const rollup = bySort.get(this.keys.write(key(bucket)).sort);
      return rollup ?? new Rollup<T>(key(bucket), [], this.definition);
    });
  }

  /**
   * The bucket that a moment is in, by the calendar of the rollup's zone. If each counted item states its zone, name the
   * zone.
   */
  bucket(moment: Date, timeZone?: string): string {
    const field = this.field();
    const zone = timeZone ?? field.timeZone;
    if (zone === undefined) {
      this.keys.refuse(
        `${field.name} is in the zone of each item: write the text of a bucket, or name a zone`,
      );
    }
    return bucketOf(field.bucket, moment, zone);
  }

  private field(): TemplateField & { bucket: TimeBucket } {
    const buckets = this.keys.fields.filter(({ bucket }) => bucket);
    return buckets.at(-1) as TemplateField & { bucket: TimeBucket };
  }

  private buckets(first = "", last = ""): string[] {
    const { bucket } = this.field();
    const begin = parseBucket(bucket, first) ?? 0;
    const length = (parseBucket(bucket, last) ?? 0) - begin + 1;
    if (length > MAX_BUCKETS) {
      this.keys.refuse(`a range has at most ${MAX_BUCKETS} buckets`);
    }
    return Array.from({ length: Math.max(length, 0) }, (_, place) =>
      bucketText(bucket, begin + place),
    );
  }
}
