from __future__ import annotations

from importlib.util import find_spec

# Where PyTorch is not installed, one test is collected, and skips with the reason.
collect_ignore_glob = [] if find_spec("torch") else ["test_[!e]*.py"]

if not collect_ignore_glob:
    import torch  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(1)  # the matrices are tiny: threads would wait for each other, most of all on a busy machine
