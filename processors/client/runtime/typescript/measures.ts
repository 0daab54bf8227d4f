import type { AttributeValue } from "@aws-sdk/client-dynamodb";
import type { DecimalText } from "./decimals";
import { addDecimals, compareDecimals, divideDecimals } from "./decimals";
import { decimalText, parseDecimal, readDecimal } from "./decimals";

/** An item as DynamoDB returns it. */
export type StoredItem = Record<string, AttributeValue>;

/** How a measure is stored, and how it is made of the measures of several items. */
export type MeasureDefinition =
  | { kind: "count" | "distinct" | "sum" }
  | { kind: "max" | "min" | "latest"; of: "number" | "text" | "any" }
  /** Bins by attribute: where each begins, or the estimate of its values. */
  | { kind: "histogram" | "percentiles"; bins: Record<string, DecimalText> }
  | { kind: "average"; sum: string; count: string }
  | { kind: "percentile"; of: string; percent: DecimalText };

type MeasureDefinitions = Record<string, MeasureDefinition>;
type MeasureValue = bigint | string | bigint[] | undefined;
type MeasureValues = Record<string, MeasureValue>;

type PlainNumber<V> = V extends bigint | DecimalText
  ? number
  : V extends readonly bigint[]
    ? number[]
    : V;

/** Measures as JavaScript's numbers, which are exact up to 15 digits. */
export type PlainNumbers<M> = { [P in keyof M]: PlainNumber<M[P]> };

/** A stored number or text. */
function storedText(attribute: AttributeValue | undefined): string | undefined {
  return attribute?.N ?? attribute?.S;
}

/** A stored number without a fraction; undefined if it is absent. */
function storedInteger(
  attribute: AttributeValue | undefined,
): bigint | undefined {
  if (attribute?.N === undefined) return undefined;
  const { digits, scale } = parseDecimal(attribute.N);
  return digits / 10n ** BigInt(scale);
}

/** A measure of one item; a count or sum that is absent is 0. */
function storedMeasure(
  item: StoredItem,
  name: string,
  definition: MeasureDefinition,
): MeasureValue {
  if (name === "__proto__") {
    throw new Error("the AWS SDK reads no attribute __proto__: rename it");
  }
  switch (definition.kind) {
    case "count":
    case "distinct":
      return storedInteger(item[name]) ?? 0n;
    case "sum":
      return decimalText(parseDecimal(item[name]?.N ?? "0"));
    case "histogram":
    case "percentiles":
      return Object.keys(definition.bins).map(
        (attribute) => storedInteger(item[attribute]) ?? 0n,
      );
    case "average":
    case "percentile":
    case "max":
    case "min":
    case "latest":
      return shownValue(item[name]);
  }
}

/** A number in its shortest form, or a text. */
function shownValue(attribute: AttributeValue | undefined): string | undefined {
  const isNumber = attribute?.N !== undefined;
  const text = storedText(attribute);
  return isNumber && text !== undefined
    ? decimalText(parseDecimal(text))
    : text;
}

/** The order of texts in DynamoDB, which is that of their UTF-8 bytes. */
function compareTexts(left: string, right: string): number {
  const [lefts, rights] = [Array.from(left), Array.from(right)];
  for (const [place, character] of lefts.entries()) {
    const other = rights[place]?.codePointAt(0) ?? -1;
    const order = (character.codePointAt(0) ?? 0) - other;
    if (order !== 0) return order;
  }
  return lefts.length - rights.length;
}

/** The larger, or the smaller, of two stored values. A number is preferred to a text. */
function extreme(
  left: AttributeValue | undefined,
  right: AttributeValue | undefined,
  kind: "max" | "min",
): AttributeValue | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  if (left.N === undefined && right.N !== undefined) return right;
  if (left.N !== undefined && right.N === undefined) return left;
  const order =
    left.N !== undefined && right.N !== undefined
      ? compareDecimals(left.N, right.N)
      : compareTexts(left.S ?? "", right.S ?? "");
  return order > 0 === (kind === "max") ? left : right;
}

function combinedValue(left: MeasureValue, right: MeasureValue): MeasureValue {
  if (left === undefined || right === undefined) return left ?? right;
  if (typeof left === "bigint" && typeof right === "bigint") {
    return left + right;
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.map((count, bin) => count + (right[bin] ?? 0n));
  }
  return addDecimals(String(left), String(right));
}

/** The measures of one rollup, from all of its stored items. */
function storedMeasures(
  items: StoredItem[],
  definitions: MeasureDefinitions,
): MeasureValues {
  return combined(
    items.length === 0 ? [{}] : items,
    definitions,
    items.length > 1,
  );
}

/** The measures of the items of several rollups together, without counts of different values and latest values, which do not add up. */
function totalMeasures(
  items: StoredItem[],
  definitions: MeasureDefinitions,
): MeasureValues {
  const additive = Object.entries(definitions).filter(
    ([, { kind }]) => kind !== "distinct" && kind !== "latest",
  );
  return combined(
    items.length === 0 ? [{}] : items,
    Object.fromEntries(additive),
    true,
  );
}

function combined(
  items: StoredItem[],
  definitions: MeasureDefinitions,
  isComputed: boolean,
): MeasureValues {
  const named = Object.entries(definitions);
  const isOfOthers = ({ kind }: MeasureDefinition) =>
    isComputed && (kind === "average" || kind === "percentile");
  const own = named.filter(([, definition]) => !isOfOthers(definition));
  const values = new Map<string, MeasureValue>();
  for (const [name, definition] of own) {
    values.set(name, combinedMeasure(items, name, definition));
  }
  const all = named.map(([name, definition]) => {
    const value = isOfOthers(definition)
      ? computedValue(values, definitions, definition)
      : values.get(name);
    return [name, value] as const;
  });
  return Object.fromEntries(all);
}

function combinedMeasure(
  items: StoredItem[],
  name: string,
  definition: MeasureDefinition,
): MeasureValue {
  const each = items.map((item) => storedMeasure(item, name, definition));
  const { kind } = definition;
  if (kind !== "max" && kind !== "min") return each.reduce(combinedValue);
  const stored = items.map((item) => item[name]);
  return shownValue(
    stored.reduce((left, right) => extreme(left, right, kind), undefined),
  );
}

/** A measure that follows from other measures. */
function computedValue(
  values: Map<string, MeasureValue>,
  definitions: MeasureDefinitions,
  definition: MeasureDefinition,
): DecimalText | undefined {
  if (definition.kind === "average") {
    return quotient(values.get(definition.sum), values.get(definition.count));
  }
  if (definition.kind !== "percentile") return undefined;
  const bins = definitions[definition.of];
  return percentileOf(values.get(definition.of), bins, definition.percent);
}

function quotient(
  dividend: MeasureValue,
  divisor: MeasureValue,
): DecimalText | undefined {
  return divideDecimals(String(dividend ?? 0), String(divisor ?? 0));
}

/** The estimate of the smallest value that at least this part of the values do not exceed. */
function percentileOf(
  counts: MeasureValue,
  definition: MeasureDefinition | undefined,
  percent: string,
): DecimalText | undefined {
  if (definition?.kind !== "percentiles" || !Array.isArray(counts)) {
    throw new RangeError("the measure has no bins of percentiles");
  }
  const part = readDecimal(percent);
  const hundred = part && 100n * 10n ** BigInt(part.scale);
  if (!part || !hundred || part.digits <= 0n || part.digits > hundred) {
    throw new RangeError("write a percentile above 0, up to 100");
  }
  const total = counts.reduce((sum, count) => sum + count, 0n);
  if (total <= 0n) return undefined;
  let soFar = 0n;
  const estimates = Object.values(definition.bins);
  for (const [bin, estimate] of estimates.entries()) {
    soFar += counts[bin] ?? 0n;
    if (soFar > 0n && hundred * soFar >= part.digits * total) return estimate;
  }
  return estimates.at(-1);
}

/** Measures, exact and as plain numbers, and the values that follow from them. */
export class MeasuredValues<M extends object, P extends string> {
  /** The exact measures. Counts are bigints, other numbers are the digits of decimal numbers. */
  readonly measures: M;
  private readonly definitions: MeasureDefinitions;

  constructor(measures: M, definitions: MeasureDefinitions) {
    this.measures = measures;
    this.definitions = definitions;
  }

  /** The measures as JavaScript's numbers, which are exact up to 15 digits. */
  get numbers(): PlainNumbers<M> {
    const plain = Object.entries(this.measures).map(([name, value]) => {
      const definition = this.definitions[name];
      const isText =
        definition !== undefined &&
        "of" in definition &&
        definition.kind !== "percentile" &&
        definition.of !== "number";
      if (Array.isArray(value)) return [name, value.map(Number)];
      return [name, value === undefined || isText ? value : Number(value)];
    });
    return Object.fromEntries(plain) as PlainNumbers<M>;
  }

  /** One measure divided by another, rounded half to even at 6 decimal places; undefined if the divisor is 0. */
  average(
    sum: keyof M & string,
    count: keyof M & string,
  ): DecimalText | undefined {
    const values = this.measures as MeasureValues;
    return quotient(values[sum], values[count]);
  }

  /** The estimate of a percentile from the bins of a measure; undefined if nothing was counted. */
  percentile(of: P, percent: number | DecimalText): DecimalText | undefined {
    const values = this.measures as MeasureValues;
    return percentileOf(values[of], this.definitions[of], String(percent));
  }
}
