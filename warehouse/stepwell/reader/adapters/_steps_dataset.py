"""`OptimizerSteps`: a PyTorch dataset of optimizer steps. Imported only where it is asked for, because it needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stepwell.reader._read.batches import TreeBatches
from stepwell.reader._read.reader import BatchReader
from stepwell.reader.adapters._feed import Feed
from stepwell.reader.adapters._needs import MissingTrainer

try:
    from torch.utils.data import IterableDataset, get_worker_info  # pyright: ignore[reportMissingImports]
except ModuleNotFoundError as error:
    raise MissingTrainer("torch", "a PyTorch dataset") from error


class OptimizerSteps(IterableDataset):  # type: ignore[misc]
    """An `IterableDataset` whose items are optimizer steps: what is left of the current epoch, then the next.

    For `DataLoader(…, batch_size=None)`: an item is a batch already. With W workers, worker w reads the steps w, w + W, … and the loader
    gives them in the order that a single process would; each worker opens the warehouse itself, so `make` has to be picklable (a
    function of a module, or `functools.partial`) where workers are spawned, and so has `form`.

    To resume: with `num_workers=0`, and with torchdata's `StatefulDataLoader`, `state_dict` and `load_state_dict` are all it takes.
    The plain loader keeps no state of its workers: save `state_after(batches)` of the last batch you used (`form` has to pass on the
    batch, or its epoch and number), and give it to `load_state_dict` before the loader is made. Workers that are not persistent
    begin where this object is: call `set_epoch` before each epoch then.
    """

    def __init__(
        self, make: Callable[[], BatchReader], *, rank: int = 0, form: Callable[[TreeBatches], Any] | None = None
    ) -> None:
        """
        Args:
            make: Makes the reader, the same in every process.
            rank: Of data parallelism; only looked at without `form`.
            form: What becomes of an optimizer step, such as one of the adapters. By default the packs of `rank`, a list of dicts of tensors
                (`TreeBatch.to_torch`).
        """
        super().__init__()
        self._feed, self._rank, self._form = Feed(make), rank, form

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        for batches in self._feed.steps(worker, workers):
            yield [pack.to_torch() for pack in batches.packs[self._rank]] if self._form is None else self._form(batches)

    def state_dict(self) -> dict[str, Any]:
        """What comes after the last item that this process gave. JSON."""
        return self._feed.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there. Raises InvalidRecord where the state is of another selection, settings or seed."""
        self._feed.load_state_dict(state)

    def state_after(self, batches: TreeBatches) -> dict[str, Any]:
        """The state in which `batches` was the last item, whichever worker read it."""
        return self._feed.state_after(batches)

    def set_epoch(self, epoch: int) -> None:
        """Begin that epoch, from 0."""
        self._feed.set_epoch(epoch)
