"""kill -9 and SIGSTOP at random moments, under load: forty rounds as a test, as many as wanted by `make soak`.

Two data folders feed one warehouse, each with a producer and an ingest, one of which has the lease; a maintainer works beside them. A round
kills one of them and starts it again, or stops whoever has the lease until another has taken it, and lets it go on. What a producer was
told to be kept must be there in the end, once, with whole prompts, and every dataset must read as it did when it was made.
"""

from tests.soak._check import check
from tests.soak._rounds import NAMES, ROUNDS, Soak

__all__ = ["NAMES", "ROUNDS", "Soak", "check"]
