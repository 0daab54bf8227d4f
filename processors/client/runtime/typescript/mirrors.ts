import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import type { MeasureDefinition, StoredItem } from "./measures";
import { shownValue, storedInteger } from "./measures";

/** A copy of a measure on an application's item. */
export interface MirroredValue<V> {
  /** The measure when it was copied; undefined if there is no copy. */
  value: V | undefined;
  /** The revision of the rollup when it was copied. */
  rev: bigint | undefined;
  /** A hash of the rollup that the revision belongs to. */
  of: string | undefined;
}

/** Where an item shows a measure. */
interface MirrorDefinition {
  path: string[];
  kind: MeasureDefinition["kind"];
}

/** The copies that an item shows. */
function readMirrors(
  item: StoredItem,
  definitions: Record<string, MirrorDefinition>,
): Record<string, MirroredValue<bigint | string>> {
  const mirrors = Object.entries(definitions).map(([name, { path, kind }]) => {
    const value = attributeAt(item, path, "");
    const isCount = kind === "count" || kind === "distinct";
    const mirrored = {
      value: isCount ? storedInteger(value) : shownValue(value),
      rev: storedInteger(attributeAt(item, path, "_rev")),
      of: attributeAt(item, path, "_of")?.S,
    };
    return [name, mirrored] as const;
  });
  return Object.fromEntries(mirrors);
}

/** The attribute at a path into maps, whose last name has this ending. */
function attributeAt(
  item: StoredItem,
  path: string[],
  ending: string,
): AttributeValue | undefined {
  let attributes: StoredItem | undefined = item;
  for (const name of path.slice(0, -1)) attributes = attributes?.[name]?.M;
  return attributes?.[`${path.at(-1) ?? ""}${ending}`];
}
