"""Copies of measures on an application's items."""

from dataclasses import dataclass
from typing import Any, Dict, Generic, List, Mapping, Optional, Tuple, TypeVar

from .measures import _COUNTS, _stored_value

V = TypeVar("V")

#: The types of attributes in items as the client of boto3 returns them.
_ATTRIBUTE_TYPES = ("S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS")


@dataclass(frozen=True)
class MirroredValue(Generic[V]):
    """A copy of a measure on an application's item."""

    #: The measure when it was copied; None if there is no copy.
    value: Optional[V]
    #: The revision of the rollup when it was copied.
    rev: Optional[int]
    #: A hash of the rollup that the revision belongs to.
    of: Optional[str]


def _is_typed(item: Mapping[str, Any]) -> bool:
    """Whether each attribute is a map of its type to its value: no key attribute of a plain item is a map."""
    return all(
        isinstance(value, dict) and len(value) == 1 and [*value][0] in _ATTRIBUTE_TYPES
        for value in item.values()
    )


def _read_mirrors(
    item: Mapping[str, Any], definitions: Dict[str, Tuple[List[str], str]]
) -> Dict[str, MirroredValue[Any]]:
    """The copies that an item shows, as the client or a table of boto3 returns it."""
    is_typed = _is_typed(item)
    mirrors = {}
    for name, (path, kind) in definitions.items():
        attributes: Any = item
        for step in path[:-1]:
            within = attributes.get(step, {})
            attributes = within.get("M", {}) if is_typed else within
            attributes = attributes if isinstance(attributes, dict) else {}
        last = path[-1]
        value, rev, of = (
            _stored_value(attributes.get(last + ending))
            for ending in ("", "_rev", "_of")
        )
        if value is not None and kind in _COUNTS:
            value = int(value)
        mirrors[name] = MirroredValue(value, None if rev is None else int(rev), of)
    return mirrors
