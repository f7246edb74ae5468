"""An annotator's tool: people rate answers, compare them, and say what would have been better.

Answers and ratings are lines of JSON; an answer is known by Stepwell's step id, or by the provider's own id of the response. The steps
need not be there yet: feedback waits for them.

    python examples/human_feedback.py --author ann < ratings.jsonl

    {"step": "4f…", "rating": 4, "scale": 5, "comment": "right, but long"}
    {"response_id": "chatcmpl-…", "thumb": "up"}
    {"chosen": "4f…", "rejected": "9c…"}
    {"step": "4f…", "correction": "It is 42."}
    {"trajectory": "…", "label": "off-topic"}
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from typing import Any

from stepwell import sdk
from stepwell.errors import InvalidRecord

THUMBS = {"up": 1.0, "down": -1.0}


def fields_of(said: dict[str, Any]) -> dict[str, Any]:
    """A line as the fields of a feedback; a thumb is a reward of that name."""
    if (thumb := said.pop("thumb", None)) is not None:
        return {**said, "reward": THUMBS[thumb], "name": "thumb"}
    return said


def submit(lines: Iterable[str], author: str) -> tuple[int, list[str]]:
    """How many were taken, and what is wrong with the others. Whatever is wrong is known before anything is sent."""
    taken, wrong = 0, []
    for number, line in enumerate(lines, 1):
        try:
            sdk.submit_feedback(**{"author": author, **fields_of(json.loads(line))})
            taken += 1
        except (InvalidRecord, ValueError, KeyError, TypeError) as error:
            wrong.append(f"line {number}: {error}")
    return taken, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--author", required=True)
    options = parser.parse_args()
    taken, wrong = submit(sys.stdin, options.author)
    flushed = sdk.flush(timeout=10)
    for reason in wrong:
        print(reason, file=sys.stderr)
    print(json.dumps({"taken": taken, "wrong": len(wrong), "not yet acknowledged": flushed.unacknowledged}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
