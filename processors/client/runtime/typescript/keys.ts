import type { TimeBucket } from "./buckets";
import { BUCKET_FORMS, parseBucket } from "./buckets";

/** A key that the rollup cannot have. The message names the field, and never has its value. */
export class RollupKeyError extends Error {
  override name = "RollupKeyError";
}

/** A variable of a template, and the literal text before it. */
interface TemplateField {
  before: string;
  name: string;
  bucket: TimeBucket | undefined;
  /** The zone of the bucket's calendar; undefined if each counted item states it. */
  timeZone: string | undefined;
}

/** A template such as "ROLLUP#DAY#{started_at:day}". */
interface KeyTemplate {
  fields: TemplateField[];
  /** The literal text after the last field. */
  after: string;
}

type KeyValues = Record<string, string>;

function readTemplate(text: string): KeyTemplate {
  const fields: TemplateField[] = [];
  const pattern = /([^{}]*)\{(\w+)(?::(\w+)(?:@([^}]*))?)?\}/g;
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const [whole, before = "", name = "", bucket, zone] = match;
    const timeZone = zone === undefined ? "UTC" : zone || undefined;
    fields.push({ before, name, bucket: bucket as TimeBucket, timeZone });
    end += whole.length;
  }
  return { fields, after: text.slice(end) };
}

function escapedPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
}

const UTF8 = new TextEncoder();

/** The two key attributes of a rollup's items, without a shard. */
interface StoredKey {
  partition: string;
  sort: string;
}

/** How the values of a rollup's key are written into `PK` and `SK`, and read from them. */
class KeyPattern {
  readonly partition: KeyTemplate;
  readonly sort: KeyTemplate;
  private readonly rollup: string;
  private readonly isEscaped: boolean;
  private readonly readings: [KeyTemplate, RegExp[]][];

  constructor(
    rollup: string,
    partition: string,
    sort: string,
    isEscaped: boolean,
  ) {
    this.rollup = rollup;
    this.isEscaped = isEscaped;
    this.partition = readTemplate(partition);
    this.sort = readTemplate(sort);
    // A value is empty only where the key has no other reading.
    this.readings = [this.partition, this.sort].map((template) => [
      template,
      ["+?", "*?"].map((length) => this.pattern(template, length)),
    ]);
  }

  /** The fields of the key, each once. */
  get fields(): TemplateField[] {
    return [...this.partition.fields, ...this.sort.fields];
  }

  /** The stored key of these values. */
  write(values: object): StoredKey {
    const key = {
      partition: this.render(this.partition, values),
      sort: this.render(this.sort, values),
    };
    const read = this.read(key.partition, key.sort);
    for (const { name } of this.fields) {
      if (read?.[name] !== (values as KeyValues)[name]) this.refuseValue(name);
    }
    if (key.partition === "" || key.sort === "") {
      this.refuse("the key is empty");
    }
    for (const [text, limit] of [
      [key.partition, 2048],
      [key.sort, 1024],
    ] as const) {
      if (UTF8.encode(text).length > limit) {
        this.refuse(`the key is longer than ${limit} bytes`);
      }
    }
    return key;
  }

  /** The partition key of these values, and the beginning of the sort keys that the given values fix. */
  writePrefix(values: object): StoredKey {
    const given = values as Partial<KeyValues>;
    let prefix = "";
    let last: { name: string; text: string } | undefined;
    let missing: string | undefined;
    for (const { before, name, bucket } of this.sort.fields) {
      if (missing === undefined) {
        if (before !== "" && last?.text.includes(before)) {
          this.refuseValue(last.name);
        }
        prefix += before;
      }
      if (given[name] === undefined) {
        missing ??= name;
      } else if (missing === undefined) {
        last = { name, text: this.written(name, bucket, given[name]) };
        prefix += last.text;
      } else {
        this.refuse(`${name} is given, but ${missing} before it is not`);
      }
    }
    if (missing === undefined) prefix += this.sort.after;
    return {
      partition: this.render(this.partition, values),
      sort: prefix,
    };
  }

  /** The values of a stored key; undefined if it is not of this rollup. */
  read(partition: string, sort: string): KeyValues | undefined {
    let values: KeyValues = {};
    const texts = [partition, sort];
    for (const [place, [template, patterns]] of this.readings.entries()) {
      const read = patterns.map((pattern) =>
        this.bind(template, pattern.exec(texts[place] ?? ""), values),
      );
      const found = read.find((bound) => bound !== undefined);
      if (!found) return undefined;
      values = found;
    }
    return values;
  }

  /** The bound values and those of a match; undefined if the text is not of the template, or has other values. */
  private bind(
    template: KeyTemplate,
    match: RegExpExecArray | null,
    bound: KeyValues,
  ): KeyValues | undefined {
    if (!match) return undefined;
    const values = { ...bound };
    for (const [place, { name }] of template.fields.entries()) {
      const value = this.unescaped(match[place + 1] ?? "");
      if ((values[name] ?? value) !== value) return undefined;
      values[name] = value;
    }
    return values;
  }

  /** The text of a template with these values. */
  render(template: KeyTemplate, values: object): string {
    const given = values as KeyValues;
    const fields = template.fields.map(
      ({ before, name, bucket }) =>
        before + this.written(name, bucket, given[name]),
    );
    return fields.join("") + template.after;
  }

  private written(
    name: string,
    bucket: TimeBucket | undefined,
    value: string | undefined,
  ): string {
    if (typeof value !== "string") {
      this.refuse(`${name} is missing, or not a text`);
    }
    if (bucket !== undefined && parseBucket(bucket, value) === undefined) {
      this.refuse(
        `${name} is not of the form ${BUCKET_FORMS[bucket].form}, or there is no such ${bucket}`,
      );
    }
    if (!this.isEscaped) return value;
    return value.replaceAll("%", "%25").replaceAll("#", "%23");
  }

  private unescaped(text: string): string {
    if (!this.isEscaped) return text;
    return text.replaceAll("%23", "#").replaceAll("%25", "%");
  }

  private pattern({ fields, after }: KeyTemplate, length: string): RegExp {
    const open = (this.isEscaped ? "[^#]" : "[^]") + length;
    const parts = fields.map(({ before, bucket }) => {
      const value = bucket ? BUCKET_FORMS[bucket].pattern : open;
      return `${escapedPattern(before)}(${value})`;
    });
    return new RegExp(`^${parts.join("")}${escapedPattern(after)}$`);
  }

  private refuseValue(name: string): never {
    this.refuse(
      `the value of ${name} has text of the key after it, so the key would be another group's; \`rollup_keys = "escaped"\` in the model allows such values`,
    );
  }

  refuse(problem: string): never {
    throw new RollupKeyError(`rollup ${this.rollup}: ${problem}`);
  }
}
