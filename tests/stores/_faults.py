"""What goes wrong between a client and its store, and when: settings that a test changes while requests are under way."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Effect = Literal["status", "reset", "lost", "hang", "cut upload", "cut answer"]
"""status: an error instead of the answer. reset: the connection ends before the request is passed on. lost: passed on and carried out, but
the answer never comes. hang: neither passed on nor answered for a time. cut upload, cut answer: the connection ends in mid-body."""

WRITES = ("PUT", "POST", "DELETE")


@dataclass(eq=False)
class Rule:
    """One kind of fault: which requests it strikes (method; a regex found in the path and query; `chance`) and how many `times`."""

    effect: Effect
    methods: Sequence[str] | None = None
    path: str = ""
    times: int | None = None
    chance: float = 1.0
    status: int = 503
    code: str = "SlowDown"
    seconds: float = 60.0
    """How long `hang` lasts."""
    hits: int = 0
    """How many requests it struck."""

    def _fits(self, method: str, path: str) -> bool:
        left = self.times is None or self.hits < self.times
        return left and (self.methods is None or method in self.methods) and bool(re.search(self.path, path))


class Faults:
    """All that is wrong with a store at the moment. Chances are drawn from `seed`, in the order in which requests arrive."""

    def __init__(self, seed: int = 0) -> None:
        self.latency = 0.0
        """Seconds that every request waits before it is passed on."""
        self.spread = 0.0
        """Up to so many more, drawn for each."""
        self.conditions = True
        """Whether `If-None-Match` and `If-Match` are passed on; a store that ignores them does not see them."""
        self._rules: list[Rule] = []
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def add(
        self,
        effect: Effect,
        *,
        methods: Sequence[str] | None = None,
        path: str = "",
        times: int | None = None,
        chance: float = 1.0,
        status: int = 503,
        code: str = "SlowDown",
        seconds: float = 60.0,
    ) -> Rule:
        """From now on; the first rule added that strikes decides. The rule tells later how often it did."""
        rule = Rule(effect, methods, path, times, chance, status, code, seconds)
        with self._lock:
            self._rules.append(rule)
        return rule

    def full(self) -> Rule:
        """No room for anything new, while reading and removing go on."""
        return self.add(
            "status", methods=("PUT", "POST"), path=r"^[^?]*$|upload", status=507, code="InsufficientStorage"
        )

    def denied(self) -> Rule:
        """The credentials may read, and no longer write."""
        return self.add("status", methods=WRITES, status=403, code="AccessDenied")

    def remove(self, rule: Rule) -> None:
        with self._lock:
            self._rules.remove(rule)

    def clear(self) -> None:
        """All is well again."""
        with self._lock:
            self._rules.clear()
            self.latency, self.spread, self.conditions = 0.0, 0.0, True

    def wait(self) -> float:
        """The seconds that the next request waits."""
        with self._lock:
            return self.latency + (self._random.random() * self.spread if self.spread else 0.0)

    def strike(self, method: str, path: str) -> Rule | None:
        """The rule that strikes this request, counted as a hit."""
        with self._lock:
            for rule in self._rules:
                if rule._fits(method, path) and (rule.chance >= 1 or self._random.random() < rule.chance):
                    rule.hits += 1
                    return rule
        return None
