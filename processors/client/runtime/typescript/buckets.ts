/** The parts of the calendar that times are counted by. */
export type TimeBucket =
  "minute" | "hour" | "day" | "week" | "month" | "quarter" | "year";

interface BucketForm {
  pattern: string;
  form: string;
}

const BUCKET_FORMS: Record<TimeBucket, BucketForm> = {
  minute: {
    pattern: "\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}",
    form: "yyyy-mm-ddThh:mm",
  },
  hour: { pattern: "\\d{4}-\\d{2}-\\d{2}T\\d{2}", form: "yyyy-mm-ddThh" },
  day: { pattern: "\\d{4}-\\d{2}-\\d{2}", form: "yyyy-mm-dd" },
  week: { pattern: "\\d{4}-W\\d{2}", form: "yyyy-Www, a week of ISO 8601" },
  month: { pattern: "\\d{4}-\\d{2}", form: "yyyy-mm" },
  quarter: { pattern: "\\d{4}-Q\\d", form: "yyyy-Qq" },
  year: { pattern: "\\d{4}", form: "yyyy" },
};

/** A moment by the calendar and the clocks of a place. */
interface CalendarTime {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
}

/** The days from 1970-01-01 to a day. Months and days beyond their range count on. */
function dayNumber(year: number, month: number, day: number): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getTime() / 86_400_000;
}

function digits(value: number, length: number): string {
  return String(value).padStart(length, "0");
}

/** The Monday with which the first ISO week of a year begins. */
function firstMonday(year: number): number {
  const fourth = dayNumber(year, 1, 4);
  return fourth - ((((fourth + 3) % 7) + 7) % 7);
}

/** The place of a bucket in the sequence of its kind. */
function bucketNumber(bucket: TimeBucket, time: CalendarTime): number {
  const day = dayNumber(time.year, time.month, time.day);
  switch (bucket) {
    case "minute":
      return (day * 24 + time.hour) * 60 + time.minute;
    case "hour":
      return day * 24 + time.hour;
    case "day":
      return day;
    case "week":
      return Math.floor((day + 3) / 7);
    case "month":
      return time.year * 12 + time.month - 1;
    case "quarter":
      return time.year * 4 + Math.floor((time.month - 1) / 3);
    case "year":
      return time.year;
  }
}

function dayText(day: number): string {
  const date = new Date(day * 86_400_000);
  const year = digits(date.getUTCFullYear(), 4);
  const month = digits(date.getUTCMonth() + 1, 2);
  return `${year}-${month}-${digits(date.getUTCDate(), 2)}`;
}

/** The text of the bucket in this place of the sequence. */
function bucketText(bucket: TimeBucket, number: number): string {
  switch (bucket) {
    case "minute":
      return `${bucketText("hour", Math.floor(number / 60))}:${digits(((number % 60) + 60) % 60, 2)}`;
    case "hour":
      return `${dayText(Math.floor(number / 24))}T${digits(((number % 24) + 24) % 24, 2)}`;
    case "day":
      return dayText(number);
    case "week": {
      const thursday = new Date(number * 7 * 86_400_000);
      const year = thursday.getUTCFullYear();
      const week = (number * 7 - 3 - firstMonday(year)) / 7 + 1;
      return `${digits(year, 4)}-W${digits(week, 2)}`;
    }
    case "month":
      return `${digits(Math.floor(number / 12), 4)}-${digits((number % 12) + 1, 2)}`;
    case "quarter":
      return `${digits(Math.floor(number / 4), 4)}-Q${(number % 4) + 1}`;
    case "year":
      return digits(number, 4);
  }
}

/** The place of a bucket's text; undefined if there is no such bucket. */
function parseBucket(bucket: TimeBucket, text: string): number | undefined {
  if (!new RegExp(`^${BUCKET_FORMS[bucket].pattern}$`).test(text)) {
    return undefined;
  }
  const [year = 0, second = 1, day = 1, hour = 0, minute = 0] = text
    .split(/\D+/)
    .map(Number);
  const time = { year, month: second, day, hour, minute };
  let number = bucketNumber(bucket, time);
  if (bucket === "week") number = (firstMonday(year) + 3) / 7 + second - 1;
  if (bucket === "quarter") number = year * 4 + second - 1;
  return bucketText(bucket, number) === text ? number : undefined;
}

/**
 * The text of the bucket that a moment is in, by the calendar of a time zone. The platform's time zone database is used;
 * Afterwrite has its own, of the version that was released with it.
 */
export function bucketOf(
  bucket: TimeBucket,
  moment: Date,
  timeZone = "UTC",
): string {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone,
    calendar: "gregory",
    numberingSystem: "latn",
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
  });
  const parts = format.formatToParts(moment);
  const part = (type: Intl.DateTimeFormatPartTypes) =>
    Number(parts.find((part) => part.type === type)?.value);
  const time = {
    year: part("year"),
    month: part("month"),
    day: part("day"),
    hour: part("hour"),
    minute: part("minute"),
  };
  return bucketText(bucket, bucketNumber(bucket, time));
}
