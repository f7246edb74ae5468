"""Opening and making a Lance table of a `TableSpec`, and its errors sorted out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Self, TypeVar

import lance
import orjson
import pyarrow as pa
from lance.commit import CommitConflictError

from stepwell.errors import CommitConflict, StepwellError, StoreError
from stepwell.warehouse._tables.renewed import Renewed, current
from stepwell.warehouse._tables.schema import SCHEMA_VERSION, STORAGE_VERSION, TableSpec

LEDGER_KEY = "__ledger__"
"""The key of the one row per table that is no data."""

_INDEX_BYTES, _METADATA_BYTES = 128 << 20, 64 << 20
"""What Lance may keep of indices, and of the metadata of files; by default that is six gigabytes, and one, for each table."""

Options = Mapping[str, str]
Session = Any
"""`lance.Session`, which Lance's stubs do not export."""
_GONE = re.compile(r"not found:.*\.lance", re.IGNORECASE | re.DOTALL)
"""How Lance says that a file is not there; the database and Arrow pass it on."""
P = ParamSpec("P")
T = TypeVar("T")


class FileGone(StoreError):
    """A file of the version that was being read is not there any more. The newest version has what is still to be read."""

    @classmethod
    def by(cls, error: Exception) -> Self:
        """Of the error that says so."""
        return cls(
            "a file that was being read is gone, as when `stepwell forget` or `maintain --keep 0` ran meanwhile: ask again. "
            f"If it stays so, `stepwell verify` says what is missing ({first_line(error)})"
        )


def says_gone(error: Exception) -> bool:
    """Whether this, of Lance or of whoever read through it, says that a file is not there."""
    return _GONE.search(str(error)) is not None


def new_session() -> Session:
    """What tables that are read together keep in memory, with a bound. Not for two places of the same name, one after the other."""
    bounds = {"index_cache_size_bytes": _INDEX_BYTES, "metadata_cache_size_bytes": _METADATA_BYTES}
    return vars(lance)["Session"](**bounds)


def opened(
    spec: TableSpec, root: str, options: Options, *, create: bool, session: Session | None = None
) -> lance.LanceDataset:
    """The table under `root`, made when it is missing and `create` says so; what is read of it is kept in `session`.

    Raises:
        StoreError: the store cannot be read or written, the table is missing, or of another schema.
    """
    uri = uri_of(spec, root)
    session = session or new_session()
    dataset = _open(uri, options, session)
    if dataset is None and not create:
        raise StoreError(f"there is no table {uri}; `stepwell up` or `stepwell demo` makes a warehouse")
    dataset = dataset or _make(spec, root, options, session)
    _check_schema(dataset, uri)
    return guarded(uri, _with_columns, dataset, spec) if create else dataset


def uri_of(spec: TableSpec, root: str) -> str:
    """Where the table lies."""
    return f"{root.rstrip('/')}/{spec.name}.lance"


def guarded(uri: str, call: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
    """Lance raises OSError for the store and for conflicts alike, RuntimeError for some; sort them out in one place."""
    try:
        return call(*values, **named)
    except StepwellError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, CommitConflictError):
            raise CommitConflict(f"another process committed to {uri} first") from error
        if says_gone(error):
            raise FileGone.by(error) from error
        raise StoreError(f"the store failed on {uri}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The message without the places in Lance's sources that it drags along."""
    said = re.sub(r", \S+\.rs:\d+.*", "", str(error), flags=re.DOTALL).splitlines()
    return said[0][:300] if said else type(error).__name__


def ledger_row(spec: TableSpec, marks: Mapping[str, int], commit: int) -> pa.Table:
    """The row that is replaced with every commit."""
    ledger = orjson.dumps({"marks": marks, "commit": commit}).decode()
    return pa.Table.from_pylist([{spec.key: LEDGER_KEY, "ledger": ledger}], schema=spec.schema)


def newest(dataset: lance.LanceDataset, options: Options) -> lance.LanceDataset:
    """Its newest version: one request where that is `dataset`'s, else two; asking for the number and then for the version takes three."""
    found = _dataset(dataset.uri, options, dataset.session())
    return dataset if found.version == dataset.version else found


def _dataset(uri: str, options: Options, session: Session) -> lance.LanceDataset:
    if isinstance(options, Renewed):
        return lance.dataset(namespace_client=options.namespace(uri), table_id=[uri], session=session)
    return lance.dataset(uri, storage_options=current(options), session=session)


def _open(uri: str, options: Options, session: Session) -> lance.LanceDataset | None:
    try:
        return _dataset(uri, options, session)
    except ValueError as error:
        if "not found" in str(error).lower():
            return None
        raise StoreError(f"cannot open the table {uri}: {first_line(error)}") from error
    except OSError as error:
        raise StoreError(f"cannot reach the store of {uri}: {first_line(error)}") from error


def _make(spec: TableSpec, root: str, options: Options, session: Session) -> lance.LanceDataset:
    import lancedb  # seconds of imports, needed once in a warehouse's life

    uri, given = uri_of(spec, root), current(options)
    how = {
        **given,
        "new_table_enable_stable_row_ids": "true",  # cannot be switched on later
        "new_table_data_storage_version": STORAGE_VERSION,
    }
    try:
        lancedb.connect(root, storage_options=given).create_table(
            spec.name, data=ledger_row(spec, {}, 0), schema=spec.schema, exist_ok=True, storage_options=how
        )
    except (OSError, RuntimeError, ValueError) as error:
        # Another process may have created it in the same moment; then it is simply there.
        if (made := _open(uri, options, session)) is not None:
            return made
        raise StoreError(f"cannot create the table {uri}: {first_line(error)}") from error
    made = _open(uri, options, session)
    if made is None:
        raise StoreError(f"the table {uri} was created and is not there; does the store keep what it acknowledges?")
    return made


def _check_schema(dataset: lance.LanceDataset, uri: str) -> None:
    version = int((dataset.schema.metadata or {}).get(b"stepwell:schema", b"0"))
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the table {uri} has schema {version}, this version reads up to {SCHEMA_VERSION}: upgrade Stepwell"
        )
    if version < SCHEMA_VERSION:
        raise StoreError(
            f"the table {uri} has schema {version}, this version reads {SCHEMA_VERSION}: `stepwell migrate`"
        )


def _with_columns(dataset: lance.LanceDataset, spec: TableSpec) -> lance.LanceDataset:
    """Columns that the table was made without: null in the rows that are there."""
    missing = [field for field in spec.schema if field.name not in dataset.schema.names]
    if missing:
        try:
            dataset.add_columns(missing)
        except (OSError, RuntimeError, ValueError):
            newest = dataset.checkout_version(dataset.latest_version)  # somebody else may have added them just now
            if any(field.name not in newest.schema.names for field in missing):
                raise
        dataset = dataset.checkout_version(dataset.latest_version)
    return dataset
