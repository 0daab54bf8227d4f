"""The readers of ranks."""

from typing import Any, Dict, Generic, List, Mapping, NamedTuple, Optional, Tuple, cast

from .keys import _KeyPattern
from .measures import M, N, _stored_value
from .readers import G, K, P, Rollup, RollupDefinition, RollupReader, T, U
from .state import RollupSource


class RankDefinition(NamedTuple):
    """The order of a rollup's items by a measure, within groups."""

    measure: str
    within: str
    shards: int


class RankReader(RollupReader[K, P, M, N, T, U], Generic[K, P, M, N, T, U, G]):
    """Reads the order of a rollup's items by a measure.

    The index that it reads lags behind the items, typically by milliseconds.
    """

    def __init__(
        self, source: RollupSource, definition: RollupDefinition, rank: RankDefinition
    ) -> None:
        super().__init__(source, definition)
        self._rank = rank
        rollup, escaped = definition.rollup, definition.escaped
        self._groups = _KeyPattern(rollup, rank.within, "", escaped)

    def top(self, group: G, count: int) -> List[Rollup[K, M, N]]:
        """The rollups of a group with the largest values, in descending order. Equal values have no order."""
        return self._rollups(self._ordered(group, count))

    def around(self, key: K, count: int) -> List[Rollup[K, M, N]]:
        """A page around a rollup, in descending order.

        Up to `count` rollups with larger values, the rollup itself, and up to `count` rollups with the same value or a
        smaller one. Empty if the rollup is not ranked.
        """
        own = self._own(key)
        if own is None:
            return []
        is_other = lambda item: (item["PK"], item["SK"]) != (own["PK"], own["SK"])
        value = own[self._rank.measure]["N"]
        above = self._ordered(key, count, (">", value))
        below = self._ordered(key, count + 1, ("<=", value))
        others = list(filter(is_other, below))[:count]
        return self._rollups([*reversed(list(filter(is_other, above))), own, *others])

    def rank_of(self, key: K) -> Optional[int]:
        """One more than the number of rollups with larger values; None if the rollup is not ranked.

        The query reads all rollups that it counts.
        """
        own = self._own(key)
        if own is None:
            return None
        value = own[self._rank.measure]["N"]
        queries = self._queries(key, (">", value))
        return 1 + sum(self._state.count(query) for query in queries)

    def _own(self, key: K) -> Optional[Dict[str, Any]]:
        """The item of a rollup that is ranked."""
        items = self._state.items([self._keys.write(key)], True)
        return next((item for item in items if self._rank.measure in item), None)

    def _rollups(self, items: List[Dict[str, Any]]) -> List[Rollup[K, M, N]]:
        return [
            Rollup(
                cast(K, self._keys.read(item["PK"]["S"], item["SK"]["S"])),
                [item],
                self._definition,
            )
            for item in items
        ]

    def _ordered(
        self,
        group: Mapping[str, Any],
        count: int,
        bound: Optional[Tuple[str, str]] = None,
    ) -> List[Dict[str, Any]]:
        """The first items of a group on one side of a value, merged from all shards of the group."""
        if count < 0:
            raise ValueError("write a count of 0 or more")
        if count == 0:
            return []
        is_ascending = bound is not None and bound[0] == ">"
        items = []
        for query in self._queries(group, bound):
            query.update(ScanIndexForward=is_ascending, Limit=count)
            items += self._state.query(query, lambda _: True, count)
        items.sort(key=self._value, reverse=not is_ascending)
        return items[:count]

    def _value(self, item: Dict[str, Any]) -> Any:
        return _stored_value(item[self._rank.measure])

    def _queries(
        self, group: Mapping[str, Any], bound: Optional[Tuple[str, str]] = None
    ) -> List[Dict[str, Any]]:
        measure, _, shards = self._rank
        within = self._groups.render(self._groups.partition, group)
        name = f"{self._definition.rollup}#{within}"
        index = f"rank_{measure}"
        queries = []
        for shard in range(shards):
            value = {"S": f"{name}#{shard}" if shards > 1 else name}
            query: Dict[str, Any] = {
                "IndexName": index,
                "KeyConditionExpression": "#group = :group",
                "ExpressionAttributeNames": {"#group": index},
                "ExpressionAttributeValues": {":group": value},
            }
            if bound is not None:
                query["KeyConditionExpression"] += f" AND #measure {bound[0]} :value"
                query["ExpressionAttributeNames"]["#measure"] = measure
                query["ExpressionAttributeValues"][":value"] = {"N": bound[1]}
            queries.append(query)
        return queries
