"""Pairs of answers to one prompt within a prompt group, in an order that is the same at any time and favours nothing."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from stepwell.gateway._cursor import key_of, literal, opaque
from stepwell.gateway._filters import Meant
from stepwell.gateway._judged import Judged
from stepwell.gateway._read_listed import Listed, parts
from stepwell.gateway._read_steps import STEP

__all__ = ["Pairs"]

_GROUPS = 20
"""Prompt groups that one request looks at; `next` leads to the others."""
_MOST = 200
"""Steps of a group that are compared with each other."""
_ALIKE = """SELECT step_id FROM
  (SELECT step_id, "commit", producer, sequence, count(*) OVER (PARTITION BY turn, prompt_length) AS alike FROM steps WHERE {where})
  WHERE alike > 1 ORDER BY "commit", producer, sequence, step_id LIMIT {most}"""
"""Steps of a group that may have a prompt in common with another one."""

_LAST = "~"
"""Behind all pairs of a group."""

Pair = tuple[str, str]


class Pairs:
    """Any thread. Every call may block."""

    def __init__(self, listed: Listed, judged: Judged) -> None:
        self._listed, self._judged = listed, judged

    def page(self, meant: Meant, name: str, author: str, cursor: str | None, limit: int) -> dict[str, Any]:
        """The next pairs, and where to go on.

        Raises:
            Problem: 422 for a filter or another list's cursor, 503 where too many read.
            StoreError, SpoolError: the warehouse or the spool cannot be read.
        """
        begin, behind = ("", "") if cursor is None else map(str, key_of(cursor, [str, str]))
        conditions = "".join(f" AND ({one})" for one in meant.conditions)
        done = self._compared(name, author)
        found: list[tuple[str, str, Pair]] = []
        groups = self._groups(meant, conditions, f"{'>' if behind == _LAST else '>='} {literal(begin)}")
        for group in groups[:_GROUPS]:
            after = behind if group == begin else ""
            pairs = sorted(
                (_place(pair), pair) for pair in self._of_group(meant, conditions, group) if not done & {pair}
            )
            found += [(group, place, pair) for place, pair in pairs if place > after]
            if len(found) > limit:
                break
        shown = found[:limit]
        more = len(groups) > _GROUPS
        ended = (groups[_GROUPS - 1], _LAST) if more else None
        last = shown[-1][:2] if len(found) > limit else ended
        return {"items": self._shown(shown), "next": None if last is None else opaque(last)}

    def _groups(self, meant: Meant, conditions: str, begin: str) -> list[str]:
        """Those that are next, and one more than are looked at. `begin`: what their ids compare with."""
        where = f"group_id IS NOT NULL AND group_id {begin}{conditions}"
        sql = f"SELECT DISTINCT group_id FROM steps WHERE {where} ORDER BY group_id LIMIT {_GROUPS + 1}"
        return [row["group_id"] for row in self._listed.ask(sql, meant)]

    def _of_group(self, meant: Meant, conditions: str, group: str) -> Iterator[Pair]:
        """Two answers that are not the same, to prompts that are; a pair is named by its lesser id first."""
        answered = "status IN ('ok', 'truncated') AND superseded_by IS NULL AND side IS NOT TRUE"
        where = f"group_id = {literal(group)} AND {answered}{conditions}"
        ids = [row["step_id"] for row in self._listed.ask(_ALIKE.format(where=where, most=_MOST), meant)]
        by_prompt: dict[int, dict[str, int]] = defaultdict(dict)
        for some in parts(ids):
            # Hashes are of the whole prompt, as messages and as tokens, and of the whole answer.
            hashes = "hash(messages, prompt_ids) AS prompt, hash(response, response_ids) AS answer"
            for row in self._listed.rows.ask(
                f"SELECT step_id, {hashes} FROM steps WHERE step_id IN ({_listing(some)})"
            ):
                by_prompt[row["prompt"]][row["step_id"]] = row["answer"]
        for answers in by_prompt.values():
            yield from (
                (one, other) for one, other in combinations(sorted(answers), 2) if answers[one] != answers[other]
            )

    def _compared(self, name: str, author: str) -> set[Pair]:
        """Whichever of the two was chosen."""
        table, waiting = self._judged.by(name, author)
        said = [
            (row["id"], row["over"]) for row in table.to_pylist() if row["kind"] == "step" and row["over"] is not None
        ]
        said += [(target.id, target.over) for target in waiting if target.kind == "step" and target.over is not None]
        return {(min(pair), max(pair)) for pair in said}

    def _shown(self, pairs: Sequence[tuple[str, str, Pair]]) -> list[dict[str, Any]]:
        names = sorted({step for _, _, pair in pairs for step in pair})
        rows: dict[str, Mapping[str, Any]] = {}
        for some in parts(names):
            rows |= {
                row["step_id"]: row for row in self._listed.rows.ask(f"{STEP} WHERE step_id IN ({_listing(some)})")
            }
        shown = []
        for group, place, pair in pairs:
            first, second = pair if int(place[-1], 16) % 2 else pair[::-1]  # neither side is the better one more often
            if first in rows and second in rows:
                shown.append(
                    {"group_id": group, "prompt_id": rows[first]["prompt_id"], "a": rows[first], "b": rows[second]}
                )
        return shown


def _place(pair: Pair) -> str:
    """By chance, and the same every time: an author soon sees many of the steps, and new ones come between."""
    return hashlib.blake2b("\x00".join(pair).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _listing(ids: Sequence[str]) -> str:
    return ", ".join(literal(id_) for id_ in ids)
