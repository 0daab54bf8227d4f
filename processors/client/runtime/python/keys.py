"""The keys of rollups."""

import re
from typing import Mapping, NamedTuple, NoReturn, Optional

from .buckets import _BUCKET_FORMS, _parse_bucket


class RollupKeyError(ValueError):
    """A key that the rollup cannot have. The message names the field, and never has its value."""


class _TemplateField(NamedTuple):
    """A variable of a template, and the literal text before it."""

    before: str
    name: str
    bucket: Optional[str]
    #: The zone of the bucket's calendar; None if each counted item states it.
    time_zone: Optional[str]


class _KeyTemplate(NamedTuple):
    """A template such as "ROLLUP#DAY#{started_at:day}"."""

    fields: list[_TemplateField]
    #: The literal text after the last field.
    after: str


def _read_template(text: str) -> _KeyTemplate:
    fields = []
    end = 0
    for match in re.finditer(r"([^{}]*)\{(\w+)(?::(\w+)(?:@([^}]*))?)?\}", text):
        before, name, bucket, zone = match.groups()
        time_zone = "UTC" if zone is None else zone or None
        fields.append(_TemplateField(before, name, bucket, time_zone))
        end = match.end()
    return _KeyTemplate(fields, text[end:])


class _KeyPattern:
    """How the values of a rollup's key are written into `PK` and `SK`, and read from them."""

    def __init__(
        self, rollup: str, partition: str, sort: str, is_escaped: bool
    ) -> None:
        self._rollup = rollup
        self._is_escaped = is_escaped
        self.partition = _read_template(partition)
        self.sort = _read_template(sort)
        # A value is empty only where the key has no other reading.
        self._readings = [
            (template, [self._pattern(template, length) for length in ("+?", "*?")])
            for template in (self.partition, self.sort)
        ]

    @property
    def fields(self) -> list[_TemplateField]:
        """The fields of both key attributes."""
        return self.partition.fields + self.sort.fields

    def write(self, values: Mapping[str, object]) -> tuple[str, str]:
        """The stored key of these values."""
        partition = self.render(self.partition, values)
        sort = self.render(self.sort, values)
        read = self.read(partition, sort) or {}
        for field in self.fields:
            if read.get(field.name) != values[field.name]:
                self._refuse_value(field)
        if partition == "" or sort == "":
            self.refuse("the key is empty")
        for text, limit in ((partition, 2048), (sort, 1024)):
            if len(text.encode()) > limit:
                self.refuse(f"the key is longer than {limit} bytes")
        return partition, sort

    def write_prefix(self, values: Mapping[str, object]) -> tuple[str, str]:
        """The partition key of these values, and the beginning of the sort keys that the given values fix."""
        prefix = ""
        last: Optional[tuple[_TemplateField, str]] = None
        missing = None
        for field in self.sort.fields:
            if missing is None:
                if last is not None and field.before and field.before in last[1]:
                    self._refuse_value(last[0])
                prefix += field.before
            if field.name not in values:
                missing = missing or field.name
            elif missing is None:
                last = field, self._written(field, values)
                prefix += last[1]
            else:
                self.refuse(f"{field.name} is given, but {missing} before it is not")
        if missing is None:
            prefix += self.sort.after
        return self.render(self.partition, values), prefix

    def read(self, partition: str, sort: str) -> Optional[dict[str, str]]:
        """The values of a stored key; None if it is not of this rollup."""
        values: Optional[dict[str, str]] = {}
        for (template, patterns), text in zip(self._readings, (partition, sort)):
            bound = values or {}
            read = (self._bind(template, pattern, text, bound) for pattern in patterns)
            values = next((found for found in read if found is not None), None)
            if values is None:
                return None
        return values

    def _bind(
        self,
        template: _KeyTemplate,
        pattern: re.Pattern[str],
        text: str,
        bound: dict[str, str],
    ) -> Optional[dict[str, str]]:
        """The bound values and those in a text; None if the text is not of the template, or has other values."""
        match = pattern.fullmatch(text)
        if match is None:
            return None
        values = dict(bound)
        for field, written in zip(template.fields, match.groups()):
            value = self._unescaped(written)
            if values.setdefault(field.name, value) != value:
                return None
        return values

    def render(self, template: _KeyTemplate, values: Mapping[str, object]) -> str:
        """The text of a template with these values."""
        parts = [
            field.before + self._written(field, values) for field in template.fields
        ]
        return "".join(parts) + template.after

    def _written(self, field: _TemplateField, values: Mapping[str, object]) -> str:
        value = values.get(field.name)
        if not isinstance(value, str):
            self.refuse(f"{field.name} is missing, or not a text")
        if field.bucket is not None and _parse_bucket(field.bucket, value) is None:
            form = _BUCKET_FORMS[field.bucket][2]
            self.refuse(
                f"{field.name} is not of the form {form}, or there is no such {field.bucket}"
            )
        if not self._is_escaped:
            return value
        return value.replace("%", "%25").replace("#", "%23")

    def _unescaped(self, text: str) -> str:
        if not self._is_escaped:
            return text
        return text.replace("%23", "#").replace("%25", "%")

    def _pattern(self, template: _KeyTemplate, length: str) -> re.Pattern[str]:
        open_value = ("[^#]" if self._is_escaped else ".") + length
        parts = []
        for field in template.fields:
            value = _BUCKET_FORMS[field.bucket][0] if field.bucket else open_value
            parts.append(f"{re.escape(field.before)}({value})")
        after = re.escape(template.after)
        return re.compile("".join(parts) + after, re.DOTALL | re.ASCII)

    def _refuse_value(self, field: _TemplateField) -> NoReturn:
        self.refuse(
            f"the value of {field.name} has text of the key after it, so the key would be another group's; "
            '`rollup_keys = "escaped"` in the model allows such values'
        )

    def refuse(self, problem: str) -> NoReturn:
        """Raises an error about a key."""
        raise RollupKeyError(f"rollup {self._rollup}: {problem}")
