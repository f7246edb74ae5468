"""`python -m tests.soak --rounds 1000`: as long as wanted, with a line now and then, and what happened at the end."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.soak import Soak, check
from tests.stores import Place, local_bucket, moto_store

STORES = ("local", "s3", "localbucket")


@contextmanager
def place_of(store: str, root: Path) -> Iterator[Place]:
    """Where the warehouse is: a folder, moto's S3 (in memory, with writes that are atomic), or files behind another S3."""
    if store == "local":
        yield Place(str(root / "warehouse"))
        return
    with moto_store() if store == "s3" else local_bucket(root / "buckets") as server:
        yield server.place()


def main() -> None:
    """Rounds, with a dataset frozen every hundred of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--store", choices=STORES, default="local")
    parser.add_argument("--folder", type=Path, help="kept afterwards; otherwise one that is removed when all was well")
    given = parser.parse_args()
    root = given.folder or Path(tempfile.mkdtemp(prefix="stepwell-soak-"))
    print(f"seed {given.seed}, in {root}", flush=True)
    with place_of(given.store, root) as place:
        done = run(root, given.seed, place, given.rounds)
    print(json.dumps({"rounds": given.rounds, "seed": given.seed, "store": given.store, **done}, indent=1))
    if given.folder is None:
        shutil.rmtree(root)


def run(root: Path, seed: int, place: Place, rounds: int) -> dict[str, int]:
    """So many rounds; what there is at the end, and what happened."""
    frozen: dict[str, str] = {}
    with Soak(root, seed, place) as soak:
        for number in range(1, rounds + 1):
            soak.round()
            if number % 100 == 10:
                name = f"after-{number}"
                frozen[name] = place.open().datasets.create(name, "turn < 6").fingerprint
            if number % 50 == 0:
                print(f"{number} rounds, {sum(map(len, soak.accepted().values()))} steps accepted", flush=True)
        soak.finish()
        found = check(place, soak.accepted(), frozen)
    return {**found, "datasets": len(frozen), **soak.did}


if __name__ == "__main__":
    main()
