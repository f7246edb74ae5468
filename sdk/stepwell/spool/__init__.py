"""The spool: the durable local queue between every producer and ingest.

One SQLite database (WAL mode) per producing process, in one folder. Only its producer writes it; ingest reads it, keeps its
own cursor elsewhere, and the producer drops what lies below that cursor. What `Spool.append` has returned for is on disk.

The producer's identity lives in the database, not in a process id, so a spool outlives its process: a later process that opens
the file *is* that producer, and `adopt` lets ingest finish what a dead one left. Entries that announce something to come (a
request that was forwarded) are `opens=True`; whoever opens the spool next closes those that never got their answer with an entry of
kind `LOST`, so nothing is silently missing.

Standard library only; local disk only (SQLite's locks are not to be trusted on network file systems).
"""

from stepwell.spool._cursor import read_cursor, write_cursor
from stepwell.spool._figures import CONTENT_TYPE, Figure, exposition, spool_figures
from stepwell.spool._folder import adopt, marks, readers, unreadable
from stepwell.spool._format import LOST, Entry, Record
from stepwell.spool._job import Job
from stepwell.spool._lock import ProcessLock, held
from stepwell.spool._purge import ask_purge, purge_asked, purge_dead
from stepwell.spool._reader import SpoolReader
from stepwell.spool._retire import retire
from stepwell.spool._spool import Spool
from stepwell.spool._writer import SpoolWriter

__all__ = [
    "CONTENT_TYPE",
    "LOST",
    "Entry",
    "Figure",
    "Job",
    "ProcessLock",
    "Record",
    "Spool",
    "SpoolReader",
    "SpoolWriter",
    "adopt",
    "ask_purge",
    "exposition",
    "held",
    "marks",
    "purge_asked",
    "purge_dead",
    "read_cursor",
    "readers",
    "retire",
    "spool_figures",
    "unreadable",
    "write_cursor",
]
