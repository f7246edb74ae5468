"""Logging of a long-running process: structlog in front of the standard library's loggers, one line per event on stderr."""

from __future__ import annotations

import logging
import sys

_QUIET = ("mitmproxy", "hpack", "asyncio", "uvicorn.access", "botocore", "urllib3")


def start_logging(name: str, *, supervised: bool) -> None:
    """Log what Stepwell's modules say from INFO on, others from WARNING on. Under a supervisor stderr is a pipe: no colours."""
    import structlog

    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    colors = sys.stderr.isatty() and not supervised
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer(
                colors=colors, pad_event_to=0, pad_level=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("stepwell").setLevel(logging.INFO)
    for quiet in _QUIET:
        logging.getLogger(quiet).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    structlog.get_logger("stepwell.cli").info("starts", process=name)
