from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from analysis.neighbours.object_storage import served
from small_indexes import built, sentences
from small_models import small_embedder

from elmokit import Embedder
from elmokit.analysis.neighbours.build import IndexSettings
from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.errors import FormatError, InputError

pytest.importorskip("lancedb", reason="the extra analysis is not installed")

LINES = sentences(60)
QUESTION = (["the", "river", "bank", "of", "light"], 2)
ADDRESS = "s3://bucket/index"
ACCESS = {
    "AWS_ACCESS_KEY_ID": "name",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return small_embedder()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Path]:
    """A folder with an index in it, that is a bucket too."""
    folder = tmp_path_factory.mktemp("bucket")
    settings = IndexSettings(layers="all", index_above=100)
    built(folder, LINES, settings, embedder, model="tiny")
    with served(folder, "bucket") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in ACCESS.items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT", server)
        yield folder


def test_a_copy_on_object_storage_answers_as_the_folder_does(folder, embedder):
    here = NeighbourIndex.open(folder / "index", embedder)
    there = NeighbourIndex.open(ADDRESS, embedder)
    assert there.description == here.description
    for settings in ({}, {"same_word": True}, {"exact": True, "layer": 1}):
        found = there.query(*QUESTION, **settings)
        assert found
        assert found == here.query(*QUESTION, **settings)
    assert there.senses("bank", senses=2) == here.senses("bank", senses=2)


def test_another_model_is_refused_there_too(folder):
    with pytest.raises(InputError, match="s3://bucket/index: was built with tiny"):
        NeighbourIndex.open(ADDRESS, small_embedder(seed=1))


def test_an_address_without_an_index_is_one_line(folder):
    with pytest.raises(FormatError, match="check the address, and what gives access") as raised:
        NeighbourIndex.open("s3://bucket/nothing")
    assert str(raised.value).startswith("s3://bucket/nothing: ")
    assert "\n" not in str(raised.value)
