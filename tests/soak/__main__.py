"""`python -m tests.soak --rounds 1000`: as long as wanted, with a line now and then, and what happened at the end."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from tests.soak import Soak, check

from stepwell.warehouse import Warehouse


def main() -> None:
    """Rounds, with a dataset frozen every hundred of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--folder", type=Path, help="kept afterwards; otherwise one that is removed when all was well")
    given = parser.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="stepwell-soak-"))
    print(f"seed {given.seed}, in {root}", flush=True)
    frozen: dict[str, str] = {}
    with Soak(root, given.seed) as soak:
        for number in range(1, given.rounds + 1):
            soak.round()
            if number % 100 == 10:
                name = f"after-{number}"
                frozen[name] = Warehouse.open(soak.warehouse).datasets.create(name, "turn < 6").fingerprint
            if number % 50 == 0:
                print(f"{number} rounds, {sum(map(len, soak.accepted().values()))} steps accepted", flush=True)
        soak.finish()
        found = check(Warehouse.open(soak.warehouse), soak.accepted(), frozen)
    print(
        json.dumps({"rounds": given.rounds, "seed": given.seed, **found, "datasets": len(frozen), **soak.did}, indent=1)
    )
    if given.folder is None:
        import shutil

        shutil.rmtree(root)


if __name__ == "__main__":
    main()
