"""The one place of the reader that touches PyTorch, imported only when tensors are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import MissingExtra
from stepwell.reader._arrays import Array

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports]


class _MissingTorch(MissingExtra):
    """PyTorch belongs to no extra of ours: which build is right depends on the trainer's accelerator."""

    def __init__(self) -> None:
        ImportError.__init__(
            self,
            "the package 'torch' is missing, and tensors were asked for; install the PyTorch build your trainer uses, "
            "or take the numpy arrays from `arrays()`",
        )
        self.package = "torch"
        self.extra = ""


def tensors(arrays: dict[str, Array]) -> dict[str, torch.Tensor]:
    """Each array as a CPU tensor on the same memory. Raises `MissingExtra` when PyTorch is not installed."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise _MissingTorch from error
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
