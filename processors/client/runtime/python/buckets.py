"""The buckets of time in keys."""

import re
from datetime import date, datetime, timedelta, timezone
from typing import Optional
from zoneinfo import ZoneInfo

#: The form of each bucket's text: a pattern, how it is parsed, and the form in words.
_BUCKET_FORMS = {
    "minute": (r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}", "%Y-%m-%dT%H:%M", "yyyy-mm-ddThh:mm"),
    "hour": (r"\d{4}-\d{2}-\d{2}T\d{2}", "%Y-%m-%dT%H", "yyyy-mm-ddThh"),
    "day": (r"\d{4}-\d{2}-\d{2}", "%Y-%m-%d", "yyyy-mm-dd"),
    "week": (r"\d{4}-W\d{2}", "", "yyyy-Www, a week of ISO 8601"),
    "month": (r"\d{4}-\d{2}", "%Y-%m", "yyyy-mm"),
    "quarter": (r"\d{4}-Q\d", "", "yyyy-Qq"),
    "year": (r"\d{4}", "%Y", "yyyy"),
}


def _bucket_text(bucket: str, moment: datetime) -> str:
    """The text of the bucket that a local time is in."""
    day = moment.date().isoformat()
    if bucket == "minute":
        return f"{day}T{moment.hour:02}:{moment.minute:02}"
    if bucket == "hour":
        return f"{day}T{moment.hour:02}"
    if bucket == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04}-W{week:02}"
    if bucket == "month":
        return day[:7]
    if bucket == "quarter":
        return f"{moment.year:04}-Q{(moment.month + 2) // 3}"
    return day[:4] if bucket == "year" else day


def _parse_bucket(bucket: str, text: str) -> Optional[datetime]:
    """The first moment of the bucket with this text; None if there is no such bucket."""
    pattern, form, _ = _BUCKET_FORMS[bucket]
    if not re.fullmatch(pattern, text, re.ASCII):
        return None
    try:
        if bucket == "week":
            begin = date.fromisocalendar(int(text[:4]), int(text[6:]), 1)
            return datetime(begin.year, begin.month, begin.day)
        if bucket == "quarter":
            return datetime(int(text[:4]), int(text[6:]) * 3 - 2, 1)
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _next_bucket(bucket: str, moment: datetime) -> datetime:
    """The first moment of the bucket after the one that begins at a moment."""
    months = {"month": 1, "quarter": 3, "year": 12}.get(bucket)
    if months is None:
        steps = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
        return moment + timedelta(seconds=steps[bucket])
    month = moment.month - 1 + months
    return datetime(moment.year + month // 12, month % 12 + 1, 1)


def bucket_of(bucket: str, moment: datetime, time_zone: str = "UTC") -> str:
    """The text of the bucket that a moment is in, by the calendar of a time zone.

    The platform's time zone database is used; Afterwrite has its own, of the version that was released with it.
    """
    if moment.tzinfo is None:
        raise ValueError("the moment has no time zone: it needs a tzinfo")
    zone = timezone.utc if time_zone == "UTC" else ZoneInfo(time_zone)
    return _bucket_text(bucket, moment.astimezone(zone))
