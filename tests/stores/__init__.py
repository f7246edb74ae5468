"""Object stores to test against: each a server of its own on 127.0.0.1 and a free port, up for as long as its `with` block.

    with moto_store() as server:                 # moto's S3, with conditional writes that are atomic, as real stores' are
        place = server.place()                   # an empty bucket; place.open() is a Warehouse in it
    with moto_store() as server, faulty_store(server, seed=1) as faulty:
        place = faulty.place()
        faulty.faults.add("status", status=503, chance=0.2)

`local_bucket(folder)` is the PyPI package of that name, another implementation with files behind it. All run in threads of this process.
"""

from tests.stores._bucket import local_bucket
from tests.stores._faults import Effect, Faults, Rule
from tests.stores._faulty import FaultyStore, faulty_store
from tests.stores._moto import moto_store
from tests.stores._place import KEYS, Endpoint, Place

__all__ = [
    "KEYS",
    "Effect",
    "Endpoint",
    "Faults",
    "FaultyStore",
    "Place",
    "Rule",
    "faulty_store",
    "local_bucket",
    "moto_store",
]
