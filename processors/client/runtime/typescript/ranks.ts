import type { QueryCommandInput } from "@aws-sdk/client-dynamodb";
import { compareDecimals } from "./decimals";
import { KeyPattern } from "./keys";
import type { StoredItem } from "./measures";
import type { RollupDefinition, RollupTypes } from "./readers";
import { Rollup, RollupReader } from "./readers";
import type { RollupSource } from "./state";
import { inParallel } from "./state";

/** The order of a rollup's items by a measure, within groups. */
export interface RankDefinition {
  measure: string;
  within: string;
  shards: number;
}

/** The types of a ranked rollup. */
export interface RankTypes extends RollupTypes {
  group: object;
}

/** The side of a value on which items are read. */
type ValueSide = "<=" | ">";

/** Reads the order of a rollup's items by a measure. The index that it reads lags behind the items, typically by milliseconds. */
export class RankReader<T extends RankTypes> extends RollupReader<T> {
  private readonly rank: RankDefinition;
  private readonly groups: KeyPattern;

  constructor(
    source: RollupSource,
    definition: RollupDefinition,
    rank: RankDefinition,
  ) {
    super(source, definition);
    const { rollup, escaped } = definition;
    this.rank = rank;
    this.groups = new KeyPattern(rollup, rank.within, "", escaped);
  }

  /** The rollups of a group with the largest values, in descending order. Equal values have no order. */
  async top(group: T["group"], count: number): Promise<Rollup<T>[]> {
    return this.rollups(await this.ordered(group, count));
  }

  /**
   * A page around a rollup, in descending order: up to `count` rollups with larger values, the rollup itself, and up to
   * `count` rollups with the same value or a smaller one. Empty if the rollup is not ranked.
   */
  async around(key: T["key"], count: number): Promise<Rollup<T>[]> {
    const own = await this.own(key);
    const value = own?.[this.rank.measure]?.N;
    if (!own || value === undefined) return [];
    const isOther = (item: StoredItem) =>
      item["PK"]?.S !== own["PK"]?.S || item["SK"]?.S !== own["SK"]?.S;
    const above = await this.ordered(key, count, ">", value);
    const below = await this.ordered(key, count + 1, "<=", value);
    const others = below.filter(isOther).slice(0, count);
    return this.rollups([...above.filter(isOther).reverse(), own, ...others]);
  }

  /**
   * One more than the number of rollups with larger values; undefined if the rollup is not ranked. The query reads all
   * rollups that it counts.
   */
  async rankOf(key: T["key"]): Promise<number | undefined> {
    const own = await this.own(key);
    const value = own?.[this.rank.measure]?.N;
    if (value === undefined) return undefined;
    const queries = this.queries(key, ">", value);
    const counts = await inParallel(queries, (query) =>
      this.state.count(query),
    );
    return counts.reduce((sum, count) => sum + count, 1);
  }

  private async own(key: T["key"]): Promise<StoredItem | undefined> {
    const [item] = await this.state.items(
      this.shards(this.keys.write(key)),
      true,
    );
    return item;
  }

  private rollups(items: StoredItem[]): Rollup<T>[] {
    return items.map((item) => {
      const key = this.keys.read(item["PK"]?.S ?? "", item["SK"]?.S ?? "");
      return new Rollup<T>(key as T["key"], [item], this.definition);
    });
  }

  /** The first items of a group on one side of a value, merged from all shards of the group. */
  private async ordered(
    group: object,
    count: number,
    side?: ValueSide,
    value?: string,
  ): Promise<StoredItem[]> {
    if (!Number.isInteger(count) || count < 0) {
      throw new RangeError("write a count of 0 or more");
    }
    if (count === 0) return [];
    const isAscending = side === ">";
    const pages = await inParallel(
      this.queries(group, side, value),
      (query) => {
        const order = { ScanIndexForward: isAscending, Limit: count };
        return this.state.query({ ...query, ...order }, () => true, count);
      },
    );
    const valueOf = (item: StoredItem) => item[this.rank.measure]?.N ?? "0";
    const sign = isAscending ? 1 : -1;
    const items = pages.flat();
    items.sort(
      (left, right) => sign * compareDecimals(valueOf(left), valueOf(right)),
    );
    return items.slice(0, count);
  }

  private queries(
    group: object,
    side?: ValueSide,
    value?: string,
  ): Omit<QueryCommandInput, "TableName">[] {
    const { measure, shards } = this.rank;
    const within = this.groups.render(this.groups.partition, group);
    const name = `${this.definition.rollup}#${within}`;
    const index = `rank_${measure}`;
    return Array.from({ length: shards }, (_, shard) => {
      const query = {
        IndexName: index,
        KeyConditionExpression: "#group = :group",
        ExpressionAttributeNames: { "#group": index } as Record<string, string>,
        ExpressionAttributeValues: {
          ":group": { S: shards > 1 ? `${name}#${shard}` : name },
        } as StoredItem,
      };
      if (side !== undefined && value !== undefined) {
        query.KeyConditionExpression += ` AND #measure ${side} :value`;
        query.ExpressionAttributeNames["#measure"] = measure;
        query.ExpressionAttributeValues[":value"] = { N: value };
      }
      return query;
    });
  }
}
