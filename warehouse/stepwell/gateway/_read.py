"""What can be read over HTTP: lists, and one of what they list. Whole datasets are read through the reader or SQL."""

from __future__ import annotations

from fastapi import APIRouter

from stepwell.gateway._clients import Clients
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._made_datasets import making_routes
from stepwell.gateway._read_attention import attention_routes
from stepwell.gateway._read_datasets import dataset_routes
from stepwell.gateway._read_diff import diff_routes
from stepwell.gateway._read_exchange import exchange_routes
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_producers import producer_routes
from stepwell.gateway._read_quarantine import quarantine_routes
from stepwell.gateway._read_series import series_routes
from stepwell.gateway._read_stats import stats_routes
from stepwell.gateway._read_steps import step_routes
from stepwell.gateway._read_tokens import token_routes
from stepwell.gateway._read_trajectories import group_routes, trajectory_routes
from stepwell.gateway._reparse import reparse_routes

__all__ = ["TOKENIZERS", "read_routes"]

TOKENIZERS = "tokenizers"
"""The folder beside the spools in which tokenizers may lie, by model, for showing what token ids say."""


def read_routes(listed: Listed, keeper: Keeper, config: GatewayConfig, clients: Clients) -> APIRouter:
    """Steps, trajectories, groups, datasets and counts of them, as of the newest commit."""
    router, rows = APIRouter(), listed.rows
    for routes in (
        token_routes(rows, keeper.folder.parent / TOKENIZERS),  # before the one whose ids may have slashes
        exchange_routes(rows),
        diff_routes(rows),
        step_routes(rows, listed),
        trajectory_routes(rows, listed),
        group_routes(rows, listed),
        dataset_routes(rows),
        making_routes(listed),
        reparse_routes(rows, keeper),
        quarantine_routes(rows),
        series_routes(listed),
        stats_routes(listed, keeper),
        attention_routes(listed, keeper, config),
        producer_routes(keeper, clients, rows.warehouse),
    ):
        router.include_router(routes)
    return router
