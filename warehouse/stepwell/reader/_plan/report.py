"""`StepReport` and `Plan`: what was counted, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepwell.reader._pack.packing import Packing


@dataclass(frozen=True, slots=True)
class StepReport:
    """One optimizer step. Tokens are those that are computed: what is shared counts once, `tokens_naive` apart."""

    groups: int
    """Prompt groups; a trajectory without one counts as one."""
    steps: int
    """That train."""
    terms: int
    """Loss terms: sampled tokens that are trained, each once per step that sampled it."""
    tokens_naive: int
    """Of all steps, each in full."""
    tokens_merged: int
    """Each shared prefix once, before anything is cut."""
    tokens: int
    """Of all packs."""
    packs: int
    """Over all ranks, empty ones included."""
    empty: int
    largest: int
    """Tokens of the largest pack."""
    makespan: int
    """Tokens of the rank that has most."""
    bound: int
    """No packing could have a smaller makespan."""

    @classmethod
    def of(cls, packing: Packing, *, groups: int, steps: int, terms: int, naive: int) -> StepReport:
        largest = max((pack.tokens for packs in packing.ranks for pack in packs), default=0)
        return cls(
            *(groups, steps, terms, naive, packing.unique, packing.tokens, packing.packs, packing.empty),
            *(largest, packing.makespan, packing.bound),
        )

    @property
    def inflation(self) -> float:
        """Computed over merged tokens: what the cuts cost."""
        return self.tokens / self.tokens_merged if self.tokens_merged else 1.0

    @property
    def padding(self) -> int:
        """Tokens that it takes to make every pack as large as the largest."""
        return self.packs * self.largest - self.tokens


@dataclass(frozen=True)
class Plan:
    """What a reader will do in one epoch, told from columns alone.

    Tokens that steps share are known from lineage: from the parent, where the prompt goes on exactly or up to where it drifts, and from
    equal prompts. Two different prompts with a common beginning are not known to share it, so the true numbers are at least as good; but
    for steps with images, of which ids that are alike may not be shared (docs/reader.md).
    """

    selection: str
    at: int
    """The version of the warehouse."""
    optimizer_steps: tuple[StepReport, ...]
    selected: int
    """Steps that the selection names."""
    left_out: Mapping[str, int]
    """Selected steps that do not train, by reason."""
    skipped: Mapping[str, int]
    """Those that do not because something is wrong with them (`on_error="skip"`), by reason."""
    drift: Mapping[str, int]
    """Training steps whose tokens do not go on where their parent's ended, by cause."""
    derived: int
    """Training steps whose ids a tokenizer made from text."""
    notes: Mapping[str, int]
    """Steps that were realised, by what was left out of them or done otherwise (see `Realiser`)."""
    policies: tuple[str, ...]
    fingerprints: tuple[str, ...]

    def total(self, name: str) -> int:
        """The sum of a number of `StepReport` over all optimizer steps."""
        return sum(getattr(step, name) for step in self.optimizer_steps)

    @property
    def tokens_naive(self) -> int:
        return self.total("tokens_naive")

    @property
    def tokens_merged(self) -> int:
        return self.total("tokens_merged")

    @property
    def packs(self) -> int:
        return self.total("packs")

    @property
    def inflation(self) -> float:
        """Computed over merged tokens: what the cuts cost."""
        return self.total("tokens") / self.tokens_merged if self.tokens_merged else 1.0

    @property
    def makespan_over_bound(self) -> float:
        """How much longer the slowest ranks take, over all optimizer steps, than any packing must."""
        bound = self.total("bound")
        return self.total("makespan") / bound if bound else 1.0

    def __str__(self) -> str:
        trained, merged = self.total("steps"), max(self.tokens_merged, 1)
        lines = [
            f"{self.selection} at version {self.at}",
            f"{len(self.optimizer_steps)} optimizer steps of {self.total('groups')} groups: {trained} of {self.selected} steps train, "
            f"{self.total('terms')} loss terms",
            f"{self.tokens_naive} tokens, {self.tokens_merged} merged ({self.tokens_naive / merged:.2f} to 1); "
            f"inflation {self.inflation:.3f}",
            f"{self.packs} packs, {self.total('empty')} of them empty, padding {self.total('padding')}; "
            f"makespan {self.makespan_over_bound:.3f} of the bound",
        ]
        if self.derived:
            lines.append(f"{self.derived} steps train on ids that a tokenizer made from their text")
        for what, counts in (
            *(("left out", self.left_out), ("skipped", self.skipped), ("drift", self.drift), ("realised", self.notes)),
        ):
            lines += [f"{what}: {count} {reason}" for reason, count in counts.items()]
        return "\n".join(lines)
