"""Where a dataset comes from, in words: for the cards of whatever is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TITLES = {
    "Policies": "policies",
    "Policy versions": "policy_versions",
    "Models": "models",
    "Token ids from": "sources",
    "Made from datasets": "datasets",
}


def origin(lineage: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown: what was selected, of whom. `lineage` as `Datasets.lineage` gives it."""
    return [
        f"Selected at commit {lineage['at_commit']} by\n\n{_fenced(lineage['filter'], 'sql')}\n",
        *(f"- {title}: {', '.join(map(str, lineage[key]))}" for title, key in _TITLES.items() if lineage.get(key)),
    ]


def _fenced(text: str, language: str) -> str:
    """A code block that the text cannot end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
