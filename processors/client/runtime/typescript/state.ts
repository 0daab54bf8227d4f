import type { QueryCommandInput } from "@aws-sdk/client-dynamodb";
import { BatchGetItemCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { GetItemCommand, QueryCommand } from "@aws-sdk/client-dynamodb";
import type { StoredKey } from "./keys";
import type { StoredItem } from "./measures";

/** Where rollups are read. */
export interface RollupSource {
  /** The name of the state table. */
  table: string;
  /** Default: a client with the SDK's own settings. */
  client?: DynamoDBClient;
  /** Whether reads are strongly consistent, where a call does not say so. Default: false. */
  consistent?: boolean;
}

/** How rollups are read. */
export interface ReadOptions {
  /** Whether the read is strongly consistent, at twice the price. Default: as the source says. */
  consistent?: boolean;
}

/** Requests that are open at once. */
const MAX_REQUESTS = 16;
/** Attempts to read what DynamoDB leaves out of a batch. */
const MAX_ATTEMPTS = 10;

/** Calls a function with each input, several at once. */
async function inParallel<I, O>(
  inputs: I[],
  call: (input: I) => Promise<O>,
): Promise<O[]> {
  const outputs: O[] = [];
  const open = inputs.entries();
  const work = async () => {
    for (const [place, input] of open) outputs[place] = await call(input);
  };
  await Promise.all(Array.from({ length: MAX_REQUESTS }, work));
  return outputs;
}

/** The requests to the state table. */
class StateTable {
  readonly client: DynamoDBClient;
  readonly name: string;
  private readonly isConsistent: boolean;

  constructor({ table, client, consistent }: RollupSource) {
    this.client = client ?? new DynamoDBClient({});
    this.name = table;
    this.isConsistent = consistent ?? false;
  }

  isConsistentFor(options: ReadOptions): boolean {
    return options.consistent ?? this.isConsistent;
  }

  /** The items with these keys, in any order. */
  async items(
    keys: StoredKey[],
    ConsistentRead: boolean,
  ): Promise<StoredItem[]> {
    const attributes = keys.map(({ partition, sort }) => ({
      PK: { S: partition },
      SK: { S: sort },
    }));
    const [Key] = attributes;
    if (Key && attributes.length === 1) {
      const get = { TableName: this.name, Key, ConsistentRead };
      const { Item } = await this.client.send(new GetItemCommand(get));
      return Item ? [Item] : [];
    }
    const batches: StoredItem[][] = [];
    for (let begin = 0; begin < attributes.length; begin += 100) {
      batches.push(attributes.slice(begin, begin + 100));
    }
    const read = (batch: StoredItem[]) => this.batch(batch, ConsistentRead);
    return (await inParallel(batches, read)).flat();
  }

  private async batch(
    keys: StoredItem[],
    ConsistentRead: boolean,
  ): Promise<StoredItem[]> {
    const items: StoredItem[] = [];
    let Keys = keys;
    for (let attempt = 0; Keys.length > 0; attempt += 1) {
      if (attempt === MAX_ATTEMPTS) {
        throw new Error(
          "DynamoDB leaves items out of a batch: it is throttled",
        );
      }
      if (attempt > 0) {
        const delay = Math.random() * 50 * 2 ** attempt;
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
      const RequestItems = { [this.name]: { Keys, ConsistentRead } };
      const answer = await this.client.send(
        new BatchGetItemCommand({ RequestItems }),
      );
      items.push(...(answer.Responses?.[this.name] ?? []));
      Keys = answer.UnprocessedKeys?.[this.name]?.Keys ?? [];
    }
    return items;
  }

  /** Items of a query in its order, until there are enough of those that are wanted. */
  async query(
    query: Omit<QueryCommandInput, "TableName">,
    isWanted: (item: StoredItem) => boolean,
    enough = Infinity,
  ): Promise<StoredItem[]> {
    const items: StoredItem[] = [];
    let start: StoredItem | undefined = query.ExclusiveStartKey;
    do {
      const page: QueryCommandInput = { ...query, TableName: this.name };
      if (start) page.ExclusiveStartKey = start;
      const answer = await this.client.send(new QueryCommand(page));
      items.push(...(answer.Items ?? []).filter(isWanted));
      start = answer.LastEvaluatedKey;
    } while (start && items.length < enough);
    return items.slice(0, enough);
  }

  /** The number of items of a query. */
  async count(query: Omit<QueryCommandInput, "TableName">): Promise<number> {
    let [count, start] = [0, query.ExclusiveStartKey];
    do {
      const page: QueryCommandInput = {
        ...query,
        TableName: this.name,
        Select: "COUNT",
      };
      if (start) page.ExclusiveStartKey = start;
      const answer = await this.client.send(new QueryCommand(page));
      count += answer.Count ?? 0;
      start = answer.LastEvaluatedKey;
    } while (start);
    return count;
  }
}
