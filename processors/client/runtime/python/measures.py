"""The measures of rollups."""

from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import (
    Any,
    Callable,
    Generic,
    Mapping,
    Optional,
    TypedDict,
    TypeVar,
    Union,
    cast,
)


class MeasureDefinition(TypedDict, total=False):
    """How a measure is stored, and how it is made of the measures of several items."""

    #: count, distinct, sum, max, min, latest, histogram, percentiles, average or percentile.
    kind: str
    #: Of an average: the measure that is divided, and by which.
    sum: str
    count: str
    #: Of a percentile: the measure with the bins, and which percentile.
    of: str
    percent: str
    #: Bins by attribute: where each begins, or the estimate of its values.
    bins: dict[str, str]


M = TypeVar("M", bound=Mapping[str, Any])
N = TypeVar("N", bound=Mapping[str, Any])

#: Sums in it are exact: DynamoDB's numbers have up to 38 digits, and exponents from -130 to 125.
_EXACT = Context(prec=400)
#: Counts that are summed over several items.
_COUNTS = ("count", "distinct")
_BINS = ("histogram", "percentiles")
_COMPUTED = ("average", "percentile")


def _stored_value(attribute: Any) -> Any:
    """A number or text of an item, as the client or a table of boto3 returns it."""
    if not isinstance(attribute, dict):
        return attribute
    number = attribute.get("N")
    return attribute.get("S") if number is None else Decimal(number)


def _whole(value: Any) -> int:
    return 0 if value is None else int(value)


def _stored_measure(
    item: dict[str, Any], name: str, definition: MeasureDefinition
) -> Any:
    """A measure of one item; a count or sum that is absent is 0."""
    kind = definition["kind"]
    if kind in _BINS:
        return [_whole(_stored_value(item.get(bin))) for bin in definition["bins"]]
    value = _stored_value(item.get(name))
    if kind in _COUNTS:
        return _whole(value)
    return Decimal(0) if kind == "sum" and value is None else value


def _combined_value(left: Any, right: Any, kind: str) -> Any:
    if left is None or right is None:
        return right if left is None else left
    if kind in ("max", "min"):
        return left if _is_preferred(left, right, kind) else right
    if isinstance(left, list):
        return [count + more for count, more in zip(left, right)]
    return _EXACT.add(left, right) if isinstance(left, Decimal) else left + right


def _is_preferred(left: Any, right: Any, kind: str) -> bool:
    """Whether a value of a max or min is kept beside another one: every number is preferred to every text."""
    if isinstance(left, str) != isinstance(right, str):
        return isinstance(right, str)
    return bool(left > right if kind == "max" else left < right)


def _combined(
    sources: list[Any],
    definitions: dict[str, MeasureDefinition],
    read: Callable[[Any, str, MeasureDefinition], Any],
    is_computed: bool,
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, definition in definitions.items():
        kind = definition["kind"]
        if is_computed and kind in _COMPUTED:
            values[name] = _computed_value(values, definitions, definition)
        else:
            each = [read(source, name, definition) for source in sources]
            values[name] = reduce(
                lambda left, right: _combined_value(left, right, kind), each
            )
    return values


def _stored_measures(
    items: list[dict[str, Any]], definitions: dict[str, MeasureDefinition]
) -> dict[str, Any]:
    """The measures of one rollup, from all of its stored items."""
    return _combined(items or [{}], definitions, _stored_measure, len(items) > 1)


def _total_measures(
    rollups: list[Any], definitions: dict[str, MeasureDefinition]
) -> dict[str, Any]:
    """The measures of several rollups together, without counts of different values and latest values: they do not add up."""
    additive = {
        name: definition
        for name, definition in definitions.items()
        if definition["kind"] not in ("distinct", "latest")
    }
    nothing = _stored_measures([], definitions)
    return _combined(
        rollups or [nothing], additive, lambda values, name, _: values[name], True
    )


def _computed_value(
    values: dict[str, Any],
    definitions: dict[str, MeasureDefinition],
    definition: MeasureDefinition,
) -> Optional[Decimal]:
    """A measure that follows from other measures. These are defined before it."""
    if definition["kind"] == "average":
        return _quotient(values[definition["sum"]], values[definition["count"]])
    bins = definitions[definition["of"]]
    return _percentile(values[definition["of"]], bins, definition["percent"])


def _quotient(dividend: Any, divisor: Any) -> Optional[Decimal]:
    """The quotient, rounded half to even at 6 decimal places; None if the divisor is 0."""
    if divisor == 0:
        return None
    millionths = round(Fraction(dividend) / Fraction(divisor) * 1_000_000)
    value = _EXACT.scaleb(Decimal(millionths), -6)
    whole = value.to_integral_value()
    return whole if whole == value else value.normalize(_EXACT)


def _percentile(
    counts: Any, definition: MeasureDefinition, percent: Any
) -> Optional[Decimal]:
    """The estimate of the smallest value that at least this part of the values do not exceed."""
    if definition["kind"] != "percentiles":
        raise ValueError("the measure has no bins of percentiles")
    part = Fraction(str(percent))
    if not 0 < part <= 100:
        raise ValueError("write a percentile above 0, up to 100")
    total = sum(counts)
    if total <= 0:
        return None
    estimates = list(definition["bins"].values())
    so_far = 0
    for count, estimate in zip(counts, estimates):
        so_far += count
        if so_far > 0 and 100 * so_far >= part * total:
            return Decimal(estimate)
    return Decimal(estimates[-1])


class MeasuredValues(Generic[M, N]):
    """Measures, exact and as plain numbers, and the values that follow from them."""

    def __init__(self, measures: M, definitions: dict[str, MeasureDefinition]) -> None:
        #: The exact measures: counts are integers, other numbers are decimals.
        self.measures = measures
        self._definitions = definitions

    @property
    def numbers(self) -> N:
        """The measures as plain numbers: decimals as floats, which are exact up to 15 digits."""
        plain = {
            name: float(value) if isinstance(value, Decimal) else value
            for name, value in self.measures.items()
        }
        return cast(N, plain)

    def average(self, sum: str, count: str) -> Optional[Decimal]:
        """One measure divided by another, rounded half to even at 6 decimal places; None if the divisor is 0."""
        return _quotient(self.measures[sum], self.measures[count])

    def percentile(
        self, of: str, percent: Union[int, float, str, Decimal]
    ) -> Optional[Decimal]:
        """The estimate of a percentile from the bins of a measure; None if nothing was counted."""
        return _percentile(self.measures[of], self._definitions[of], percent)
