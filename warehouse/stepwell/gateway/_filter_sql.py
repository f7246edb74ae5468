"""What filters have in common: texts that are searched for, conditions that clients write, values as SQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepwell.gateway._listing import Listing
from stepwell.gateway._problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SEARCHED", "columns_of", "microseconds", "number", "satisfying", "searched"]

SEARCHED = 10_000
"""Steps of each kind of text that a search looks for at most."""

_RESTORED = frozenset({"prompt_ids", "messages", "tools"})


def searched(listing: Listing, text: str) -> tuple[pa.Table, bool]:
    """Ids of the steps that say every word of a text, and whether these are all."""
    from stepwell.errors import InvalidRecord

    try:
        return listing.saying(text, SEARCHED)
    except InvalidRecord:  # no word in it: an id may begin with it all the same
        import pyarrow as pa

        return pa.table({"step_id": pa.array([], pa.string())}), True


def columns_of(where: str) -> frozenset[str]:
    """The columns that a condition of a client's is over. Raises Problem (422) for what is no such condition."""
    from stepwell.warehouse import BadQuery, columns_of_condition

    try:
        columns = columns_of_condition(where)
    except BadQuery as error:
        raise Problem(422, f"where: {error}", field="where") from error
    if columns & _RESTORED:
        raise Problem(422, "where: whole prompts and tools are not looked through here; q searches them", field="where")
    return columns


def satisfying(listing: Listing, where: str) -> pa.Table:
    """Ids of the steps that satisfy a condition over the view `steps`. Raises Problem (422) where it cannot be worked out."""
    from stepwell.warehouse import BadQuery

    try:
        return listing.satisfying(where)
    except BadQuery as error:
        raise Problem(422, f"where: {error}", field="where") from error


def microseconds(moment: datetime | None) -> int | None:
    """Since 1970; a moment without a zone is UTC."""
    if moment is None:
        return None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def number(value: float) -> str:
    """As an SQL literal, to the last digit."""
    return str(value) if isinstance(value, int) else f"CAST('{value!r}' AS DOUBLE)"
