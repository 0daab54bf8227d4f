/** The digits of an exact decimal number, such as "12.5": JavaScript's own numbers are exact up to 15 digits only. */
export type DecimalText = `${number}`;

/** The number `digits` · 10^−`scale`. */
interface ScaledInteger {
  digits: bigint;
  scale: number;
}

/** A number, or undefined if the text is not a number. */
function readDecimal(text: string): ScaledInteger | undefined {
  const match = /^([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d{1,4}))?$/.exec(text);
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match ?? [];
  if (!match || whole + fraction === "") return undefined;
  const digits = BigInt(`${whole}${fraction}`);
  const scale = fraction.length - Number(exponent);
  return rescaled({ digits: sign === "-" ? -digits : digits, scale }, 0);
}

function parseDecimal(text: string): ScaledInteger {
  const number = readDecimal(text);
  if (!number) throw new RangeError("a stored number has an unknown form");
  return number;
}

/** The same number with at least this scale. */
function rescaled(number: ScaledInteger, scale: number): ScaledInteger {
  if (number.scale >= scale) return number;
  return {
    digits: number.digits * 10n ** BigInt(scale - number.scale),
    scale,
  };
}

/** Two numbers at one scale. */
function aligned(left: ScaledInteger, right: ScaledInteger) {
  const scale = Math.max(left.scale, right.scale);
  return {
    left: rescaled(left, scale).digits,
    right: rescaled(right, scale).digits,
    scale,
  };
}

function decimalText({ digits, scale }: ScaledInteger): DecimalText {
  const sign = digits < 0n ? "-" : "";
  const text = String(digits < 0n ? -digits : digits).padStart(scale + 1, "0");
  const whole = text.slice(0, text.length - scale);
  const fraction = text.slice(text.length - scale).replace(/0+$/, "");
  return `${sign}${whole}${fraction && `.${fraction}`}` as DecimalText;
}

/** The exact sum of two numbers. */
export function addDecimals(left: string, right: string): DecimalText {
  const pair = aligned(parseDecimal(left), parseDecimal(right));
  return decimalText({ digits: pair.left + pair.right, scale: pair.scale });
}

/** Below 0, 0 or above 0, as the left number is below, equal to or above the right one. */
export function compareDecimals(left: string, right: string): number {
  const pair = aligned(parseDecimal(left), parseDecimal(right));
  return pair.left < pair.right ? -1 : pair.left > pair.right ? 1 : 0;
}

/** The quotient, rounded half to even at 6 decimal places; undefined if the divisor is 0. */
export function divideDecimals(
  dividend: string,
  divisor: string,
): DecimalText | undefined {
  const pair = aligned(parseDecimal(dividend), parseDecimal(divisor));
  if (pair.right === 0n) return undefined;
  const isNegative = pair.left < 0n !== pair.right < 0n;
  const above = (pair.left < 0n ? -pair.left : pair.left) * 1_000_000n;
  const below = pair.right < 0n ? -pair.right : pair.right;
  const twiceRest = (above % below) * 2n;
  let digits = above / below;
  if (twiceRest > below || (twiceRest === below && digits % 2n === 1n)) {
    digits += 1n;
  }
  return decimalText({ digits: isNegative ? -digits : digits, scale: 6 });
}
