"""The readers of rollups."""

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import (
    Any,
    Dict,
    Generic,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
    Union,
    cast,
)

from .buckets import _next_bucket, _parse_bucket, bucket_of
from .buckets import _bucket_text
from .keys import _KeyPattern, _TemplateField
from .measures import M, MeasureDefinition, MeasuredValues, N
from .measures import _stored_measures, _stored_value, _total_measures
from .state import RollupSource, _StateTable

K = TypeVar("K", bound=Mapping[str, Any])
P = TypeVar("P", bound=Mapping[str, Any])
S = TypeVar("S", bound=Mapping[str, Any])
T = TypeVar("T", bound=Mapping[str, Any])
U = TypeVar("U", bound=Mapping[str, Any])
G = TypeVar("G", bound=Mapping[str, Any])

#: The largest number of buckets in a range.
_MAX_BUCKETS = 100_000


class RollupDefinition(NamedTuple):
    """A stored rollup and its place in the model."""

    rollup: str
    partition: str
    sort: str
    escaped: bool
    shards: int
    #: Whether an item without a count is as good as absent.
    skips_zero: bool
    measures: dict[str, MeasureDefinition]


class Rollup(MeasuredValues[M, N], Generic[K, M, N]):
    """A rollup."""

    def __init__(
        self, key: K, items: list[dict[str, Any]], definition: RollupDefinition
    ) -> None:
        measures = _stored_measures(items, definition.measures)
        super().__init__(cast(M, measures), definition.measures)
        #: The values of the key.
        self.key = key
        #: Whether anything was counted yet. Otherwise the counts and sums are 0.
        self.exists = bool(items)
        #: The number of changes so far.
        self.rev = sum(int(_stored_value(item["rev"])) for item in items)
        #: When the newest change of the last write was made, for information: a
        #: change that is delivered late, or again, takes it back.
        self.updated_at: Optional[str] = max(
            _present(items, "updated_at"), default=None
        )
        expiry = max(_present(items, "expires_at"), default=None)
        #: From then on, time to live deletes the rollup.
        self.expires_at = (
            None
            if expiry is None
            else datetime.fromtimestamp(int(expiry), timezone.utc)
        )


def _present(items: list[dict[str, Any]], name: str) -> list[Any]:
    return [_stored_value(item[name]) for item in items if name in item]


@dataclass(frozen=True)
class RollupPage(Generic[K, M, N]):
    """A page of a list."""

    rollups: list[Rollup[K, M, N]]
    #: Names the next page; None after the last page.
    cursor: Optional[str]


class RollupReader(Generic[K, P, M, N, T, U]):
    """Reads a rollup."""

    def __init__(self, source: RollupSource, definition: RollupDefinition) -> None:
        self._state = _StateTable(source)
        self._definition = definition
        rollup, partition, sort, escaped, *_ = definition
        self._keys = _KeyPattern(rollup, partition, sort, escaped)

    def get(self, key: K, *, consistent: Optional[bool] = None) -> Rollup[K, M, N]:
        """The rollup with this key. If nothing was counted yet, its counts and sums are 0."""
        return self.get_many([key], consistent=consistent)[0]

    def get_many(
        self, keys: Iterable[K], *, consistent: Optional[bool] = None
    ) -> List[Rollup[K, M, N]]:
        """The rollups with these keys, in the order of the keys."""
        wanted = [(key, self._shards(*self._keys.write(key))) for key in keys]
        # Each item once: DynamoDB refuses a batch that names a key twice.
        stored = list(dict.fromkeys(shard for _, shards in wanted for shard in shards))
        is_consistent = self._state.is_consistent(consistent)
        found = {
            (item["PK"]["S"], item["SK"]["S"]): item
            for item in self._state.items(stored, is_consistent)
        }
        return [
            Rollup(
                key,
                [found[shard] for shard in shards if shard in found],
                self._definition,
            )
            for key, shards in wanted
        ]

    def list(
        self,
        prefix: P,
        *,
        limit: int = 100,
        cursor: Optional[str] = None,
        consistent: Optional[bool] = None,
    ) -> RollupPage[K, M, N]:
        """A page of the rollups whose keys have these values, in the order of their sort keys."""
        if limit < 1:
            raise ValueError("write a limit of 1 or more")
        partition, sort = self._keys.write_prefix(prefix)
        found = self._grouped(
            partition,
            " AND begins_with(SK, :sort)" if sort else "",
            {":sort": {"S": sort}} if sort else {},
            prefix,
            consistent,
            limit + 1,
            cursor,
        )
        rollups = [rollup for _, rollup in found[:limit]]
        return RollupPage(rollups, found[limit - 1][0] if len(found) > limit else None)

    def all(
        self, prefix: P, *, limit: int = 100, consistent: Optional[bool] = None
    ) -> Iterator[Rollup[K, M, N]]:
        """All rollups whose keys have these values, in the order of their sort keys, page by page."""
        cursor = None
        while True:
            page = self.list(prefix, limit=limit, cursor=cursor, consistent=consistent)
            yield from page.rollups
            cursor = page.cursor
            if cursor is None:
                return

    def total(self, rollups: Iterable[Rollup[K, M, N]]) -> MeasuredValues[T, U]:
        """The measures of several rollups together.

        Sums of counts and sums, averages and percentiles of all of their items, extremes. Numbers of different values do
        not add up, and are left out.
        """
        definitions = self._definition.measures
        measures = _total_measures([rollup.measures for rollup in rollups], definitions)
        return MeasuredValues(cast(T, measures), definitions)

    def bins(self, measure: str) -> List[str]:
        """The bins of a measure, in the order of its counts: where each begins, or the estimate of its values."""
        return [*self._definition.measures[measure]["bins"].values()]

    def _shards(self, partition: str, sort: str) -> List[Tuple[str, str]]:
        """The items of a key: one, or one for each shard."""
        shards = self._definition.shards
        if shards == 1:
            return [(partition, sort)]
        return [(f"{partition}#SHARD#{shard}", sort) for shard in range(shards)]

    def _key_of(self, item: Dict[str, Any]) -> Optional[Dict[str, str]]:
        """The rollup's values in the key of an item; None if the item is of another rollup."""
        partition, sort = item["PK"]["S"], item["SK"]["S"]
        if self._definition.shards > 1:
            partition = re.sub(r"#SHARD#[0-9]+$", "", partition)
        key = self._keys.read(partition, sort)
        if key is None:
            return None
        # Rollups whose keys can be equal have different measures.
        measures = self._definition.measures
        is_own = any(
            attribute in item
            for name, definition in measures.items()
            for attribute in definition.get("bins", [name])
        )
        is_zero = not any(_stored_value(item.get(name)) for name in measures)
        return None if not is_own or (self._definition.skips_zero and is_zero) else key

    def _grouped(
        self,
        partition: str,
        condition: str,
        values: Dict[str, Any],
        wanted: Mapping[str, object],
        consistent: Optional[bool],
        enough: Optional[int] = None,
        after: Optional[str] = None,
    ) -> List[Tuple[str, Rollup[K, M, N]]]:
        """The rollups of a partition that meet a condition and have the wanted values, in the order of their sort keys."""
        names = {field.name for field in self._keys.fields} & wanted.keys()

        def is_wanted(item: Dict[str, Any]) -> bool:
            key = self._key_of(item)
            # The beginning of a key can be that of another value, too.
            return key is not None and all(key[name] == wanted[name] for name in names)

        groups: Dict[str, List[Dict[str, Any]]] = {}
        for shard, _ in self._shards(partition, ""):
            query: Dict[str, Any] = {
                "KeyConditionExpression": f"PK = :partition{condition}",
                "ExpressionAttributeValues": {":partition": {"S": shard}, **values},
                "ConsistentRead": self._state.is_consistent(consistent),
            }
            if after is not None:
                query["ExclusiveStartKey"] = {"PK": {"S": shard}, "SK": {"S": after}}
            if enough is not None and enough < 1000:
                query["Limit"] = enough
            for item in self._state.query(query, is_wanted, enough):
                groups.setdefault(item["SK"]["S"], []).append(item)
        return [
            (
                sort,
                Rollup(
                    cast(K, self._key_of(groups[sort][0])),
                    groups[sort],
                    self._definition,
                ),
            )
            for sort in sorted(groups)[:enough]
        ]


class BucketReader(RollupReader[K, P, M, N, T, U], Generic[K, P, M, N, T, U, S]):
    """Reads a rollup with a time in its key."""

    def range(
        self,
        series: S,
        first: Union[str, datetime],
        last: Union[str, datetime],
        *,
        zeros: bool = False,
        consistent: Optional[bool] = None,
    ) -> List[Rollup[K, M, N]]:
        """The rollups from one bucket of time to another, both included, in the order of time.

        A moment stands for the bucket that it is in. With `zeros`, buckets in which nothing was counted are there too.
        """
        field, _ = self._field()
        begin, end = (
            bound if isinstance(bound, str) else self.bucket(bound)
            for bound in (first, last)
        )
        (partition, low), (_, high) = (
            self._keys.write(self._key_in(series, bucket)) for bucket in (begin, end)
        )
        names = [other.name for other in self._keys.fields]
        template = self._keys.sort
        is_last = not template.after and template.fields[-1:] == [field]
        if not is_last or names.count(field.name) > 1:
            keys = [
                self._key_in(series, bucket) for bucket in self._buckets(begin, end)
            ]
            rollups = self.get_many(keys, consistent=consistent)
            return [rollup for rollup in rollups if rollup.exists or zeros]
        if low > high:
            return []
        found = self._grouped(
            partition,
            " AND SK BETWEEN :first AND :last",
            {":first": {"S": low}, ":last": {"S": high}},
            series,
            consistent,
        )
        if not zeros:
            return [rollup for _, rollup in found]
        by_sort = dict(found)
        filled = []
        for bucket in self._buckets(begin, end):
            key = self._key_in(series, bucket)
            _, sort = self._keys.write(key)
            filled.append(by_sort.get(sort) or Rollup(key, [], self._definition))
        return filled

    def bucket(self, moment: datetime, time_zone: Optional[str] = None) -> str:
        """The bucket that a moment is in, by the calendar of the rollup's zone.

        If each counted item states its zone, name the zone.
        """
        field, bucket = self._field()
        zone = time_zone or field.time_zone
        if zone is None:
            self._keys.refuse(
                f"{field.name} is in the zone of each item: write the text of a bucket, or name a zone"
            )
        return bucket_of(bucket, moment, zone)

    def _field(self) -> Tuple[_TemplateField, str]:
        buckets = [
            (field, field.bucket)
            for field in self._keys.fields
            if field.bucket is not None
        ]
        return buckets[-1]

    def _key_in(self, series: S, bucket: str) -> K:
        field, _ = self._field()
        return cast(K, {**series, field.name: bucket})

    def _buckets(self, first: str, last: str) -> Iterator[str]:
        _, bucket = self._field()
        moment = _parse_bucket(bucket, first)
        count = 0
        while moment is not None and (text := _bucket_text(bucket, moment)) <= last:
            yield text
            count += 1
            if count > _MAX_BUCKETS:
                self._keys.refuse(f"a range has at most {_MAX_BUCKETS} buckets")
            moment = _next_bucket(bucket, moment)
