"""Payloads read back: those of many steps with one scan, and the recent ones kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from threading import Lock

import lance

from stepwell.warehouse._restore.read import holds_data, matching
from stepwell.warehouse._tables.table import guarded

_CACHED = 64 << 20


class Payloads:
    """A `Lookup` (see `_encode/payloads`) in the table `payloads`.

    `dataset` is asked for the table each time, so that newly committed rows are found.
    """

    def __init__(self, dataset: Callable[[], lance.LanceDataset], max_bytes: int = _CACHED) -> None:
        self._dataset = dataset
        self._max_bytes = max_bytes
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __call__(self, payload_ids: Collection[str]) -> dict[str, bytes]:
        with self._lock:
            found = {id_: self._cache[id_] for id_ in payload_ids if id_ in self._cache}
            for id_ in found:
                self._cache.move_to_end(id_)
        missing = sorted(set(payload_ids) - found.keys())
        if missing and holds_data(dataset := self._dataset()):
            read = guarded(dataset.uri, matching, dataset, "payload_id", missing, ["payload_id", "data"])
            fresh = dict(zip(read["payload_id"].to_pylist(), read["data"].to_pylist(), strict=True))
            self._keep(fresh)
            found |= fresh
        return found

    def _keep(self, fresh: Mapping[str, bytes]) -> None:
        with self._lock:
            for id_, data in fresh.items():
                if id_ not in self._cache:
                    self._cache[id_] = data
                    self._bytes += len(data)
            while self._bytes > self._max_bytes:
                self._bytes -= len(self._cache.popitem(last=False)[1])
