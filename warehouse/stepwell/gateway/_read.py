"""What can be read over HTTP: lists, and one of what they list. Whole datasets are read through the reader or SQL."""

from __future__ import annotations

from fastapi import APIRouter

from stepwell.gateway._read_datasets import dataset_routes
from stepwell.gateway._read_rows import Rows
from stepwell.gateway._read_stats import stats_routes
from stepwell.gateway._read_steps import step_routes
from stepwell.gateway._read_trajectories import group_routes, trajectory_routes
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["read_routes"]


def read_routes(warehouse: LazyWarehouse) -> APIRouter:
    """Steps, trajectories, groups, datasets and counts of them, as of the newest commit."""
    router, rows = APIRouter(), Rows(warehouse)
    for routes in (step_routes, trajectory_routes, group_routes, dataset_routes, stats_routes):
        router.include_router(routes(rows))
    return router
