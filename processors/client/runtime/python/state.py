"""Requests to the state table."""

import random
import time
from typing import Any, Callable, Iterator, NamedTuple, Optional

import boto3

#: Attempts to read what DynamoDB leaves out of a batch.
_MAX_ATTEMPTS = 10


class RollupSource(NamedTuple):
    """Where rollups are read."""

    #: The name of the state table.
    table: str
    #: A client of `boto3.client("dynamodb")`.
    client: Any
    #: Whether reads are strongly consistent, where a call does not say so.
    consistent: bool


def _rollup_source(table: str, client: Any, consistent: bool) -> RollupSource:
    return RollupSource(table, client or boto3.client("dynamodb"), consistent)


class _StateTable:
    """The requests to the state table."""

    def __init__(self, source: RollupSource) -> None:
        self._table, self._client, self._is_consistent = source

    def is_consistent(self, consistent: Optional[bool]) -> bool:
        """Whether a read is consistent that says this of itself."""
        return self._is_consistent if consistent is None else consistent

    def items(
        self, keys: list[tuple[str, str]], is_consistent: bool
    ) -> Iterator[dict[str, Any]]:
        """The items with these keys, in any order."""
        attributes = [
            {"PK": {"S": partition}, "SK": {"S": sort}} for partition, sort in keys
        ]
        if len(attributes) == 1:
            answer = self._client.get_item(
                TableName=self._table,
                Key=attributes[0],
                ConsistentRead=is_consistent,
            )
            yield from [answer["Item"]] if "Item" in answer else []
            return
        for begin in range(0, len(attributes), 100):
            yield from self._batch(attributes[begin : begin + 100], is_consistent)

    def _batch(
        self, keys: list[dict[str, Any]], is_consistent: bool
    ) -> Iterator[dict[str, Any]]:
        for attempt in range(_MAX_ATTEMPTS):
            if attempt > 0:
                time.sleep(random.random() * 0.05 * 2**attempt)
            request = {"Keys": keys, "ConsistentRead": is_consistent}
            answer = self._client.batch_get_item(RequestItems={self._table: request})
            yield from answer["Responses"].get(self._table, [])
            keys = answer["UnprocessedKeys"].get(self._table, {"Keys": []})["Keys"]
            if not keys:
                return
        raise RuntimeError("DynamoDB leaves items out of a batch: it is throttled")

    def query(
        self,
        query: dict[str, Any],
        is_wanted: Callable[[dict[str, Any]], bool],
        enough: Optional[int] = None,
    ) -> list[dict[str, Any]]:
        """Items of a query in its order, until there are enough of those that are wanted."""
        items: list[dict[str, Any]] = []
        for page in self._pages(query):
            items.extend(item for item in page["Items"] if is_wanted(item))
            if enough is not None and len(items) >= enough:
                break
        return items[:enough]

    def count(self, query: dict[str, Any]) -> int:
        """The number of items of a query."""
        pages = self._pages({**query, "Select": "COUNT"})
        return sum(int(page["Count"]) for page in pages)

    def _pages(self, query: dict[str, Any]) -> Iterator[dict[str, Any]]:
        query = {**query, "TableName": self._table}
        while True:
            page = self._client.query(**query)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            query["ExclusiveStartKey"] = page["LastEvaluatedKey"]
