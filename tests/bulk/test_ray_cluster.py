from __future__ import annotations

import logging
import socket
from types import SimpleNamespace

import pytest

from elmokit.bulk.ray import connected, data_settings, worker_count
from elmokit.errors import InputError


def test_address_where_nobody_listens_is_refused_at_once(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = SimpleNamespace(is_initialized=lambda: False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"{address}: no Ray cluster answers.*ray status"),
            connected(ray, address, quiet=True),
        ):
            pass


def ray_with(**settings) -> SimpleNamespace:
    """What is used of the library, with some settings of Ray Data."""
    context = SimpleNamespace(**settings)
    return SimpleNamespace(
        data=SimpleNamespace(DataContext=SimpleNamespace(get_current=lambda: context)),
        context=context,
    )


@pytest.mark.parametrize(
    ("quiet", "progress", "bars", "level"),
    [
        (False, False, False, logging.WARNING),
        (True, False, False, logging.ERROR),
        (True, True, False, logging.ERROR),
        (False, True, True, logging.NOTSET),
    ],
)
def test_ray_shows_progress_only_where_nobody_else_does(quiet, progress, bars, level):
    ray = ray_with(enable_progress_bars=True, target_max_block_size=7)
    log = logging.getLogger("ray.data")
    before = log.level
    log.setLevel(logging.NOTSET)
    try:
        with data_settings(ray, quiet=quiet, progress=progress):
            assert ray.context.enable_progress_bars is bars
            assert log.level == level
        assert vars(ray.context) == {"enable_progress_bars": True, "target_max_block_size": 7}
        assert log.level == logging.NOTSET
    finally:
        log.setLevel(before)


def test_cluster_without_what_workers_need_is_refused():
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 3.0})
    assert worker_count(ray, "CPU") == 3
    with pytest.raises(InputError, match="has no GPU"):
        worker_count(ray, "GPU")
