import os
import platform
import sys

import pytest
import torch

from elmokit.model import products
from elmokit.model import products as tiles
from elmokit.model.products import (
    FEATURES,
    INSTRUCTIONS,
    TILE_SIZES,
    TILES,
    WITHOUT_TILES,
    are_undescribed,
    leave_out_undescribed_tiles,
    obeys,
)

ON_LINUX = sys.platform == "linux" and platform.machine() == "x86_64"
HIGHEST_WITH_SIZES, HIGHEST_WITHOUT = TILE_SIZES, TILE_SIZES - 1
ONE_PALETTE = 1
CPU = torch.device("cpu")


@pytest.fixture
def cpu(monkeypatch):
    """A CPU that answers as a test says, and a process that has not asked it yet."""

    def answers(highest: int, features: int, sizes: int) -> None:
        known = {0: highest, FEATURES: features, TILE_SIZES: sizes}
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(tiles, "ask_cpu", lambda leaf, part: known[leaf])

    leave_out_undescribed_tiles.cache_clear()
    monkeypatch.setenv(INSTRUCTIONS, "of before")  # so that it is put back afterwards
    monkeypatch.delenv(INSTRUCTIONS)
    yield answers
    leave_out_undescribed_tiles.cache_clear()


@pytest.mark.skipif(not ON_LINUX, reason="CPUID is asked on Linux and x86-64 alone")
def test_a_cpu_says_which_leaf_is_its_highest():
    assert FEATURES <= tiles.ask_cpu(0, 0) & 0xFFFFFFFF < 0x1000


@pytest.mark.parametrize(
    ("highest", "features", "sizes", "expected"),
    [
        (HIGHEST_WITH_SIZES, TILES, ONE_PALETTE, False),
        (HIGHEST_WITH_SIZES, TILES, 0, True),
        (HIGHEST_WITHOUT, TILES, ONE_PALETTE, True),
        (HIGHEST_WITHOUT, 0, 0, False),
    ],
)
def test_tiles_are_undescribed_if_they_are_announced_without_sizes(
    cpu, highest, features, sizes, expected
):
    cpu(highest, features, sizes)
    assert are_undescribed() == expected


@pytest.mark.parametrize(("highest", "undescribed"), [(HIGHEST_WITHOUT, True), (TILE_SIZES, False)])
def test_undescribed_tiles_are_left_out(cpu, highest, undescribed):
    cpu(highest, TILES, ONE_PALETTE)
    assert leave_out_undescribed_tiles() == undescribed
    assert os.environ.get(INSTRUCTIONS) == (WITHOUT_TILES if undescribed else None)


def test_what_a_user_chose_stays(cpu, monkeypatch):
    monkeypatch.setenv(INSTRUCTIONS, "AVX2")
    cpu(HIGHEST_WITHOUT, TILES, 0)
    assert leave_out_undescribed_tiles()
    assert os.environ[INSTRUCTIONS] == "AVX2"


def test_a_system_that_forbids_new_code_is_left_as_it_is(monkeypatch):
    def refuse(leaf: int, part: int) -> int:
        raise PermissionError("no code made at run time")

    monkeypatch.setattr(tiles, "ask_cpu", refuse)
    assert not are_undescribed()


@pytest.mark.parametrize("does", [True, False])
def test_fast_products_are_not_made_with_undescribed_tiles(monkeypatch, does):
    tried = []
    monkeypatch.setattr(products, "leave_out_undescribed_tiles", lambda: True)
    monkeypatch.setattr(products, "obeys", lambda: does)
    monkeypatch.setattr(products, "cpu_has", lambda name: True)
    monkeypatch.setattr(products, "works", lambda way: tried.append(way))
    products.eight_bits.cache_clear()
    assert not products.has_bfloat16(CPU)
    assert products.eight_bits() is None
    products.eight_bits.cache_clear()
    by_onednn = [products.OneDNNProduct] if does else []
    assert tried == [products.FBGEMMProduct, *by_onednn]


@pytest.mark.parametrize(("answer", "expected"), [(False, True), (True, False), (None, False)])
def test_onednn_obeys_if_it_says_that_it_goes_no_further_than_bfloat16(
    monkeypatch, answer, expected
):
    monkeypatch.setattr(tiles, "onednn_has", lambda numbers: answer)
    obeys.cache_clear()
    assert tiles.obeys() == expected
    obeys.cache_clear()


def test_what_onednn_does_not_say_is_not_known():
    assert tiles.onednn_has("quantum") is None
