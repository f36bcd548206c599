from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_same_bits, error_of, write
from random_models import random_options, random_weights, write_files
from small_models import write_small_model

from elmokit import LanguageModel
from elmokit.errors import CutShortError, ElmoWarning, FetchError, FormatError, InputError
from elmokit.formats import published
from elmokit.formats.find import is_published, read_model
from elmokit.formats.published import PUBLISHED_MODELS, download, find_published
from elmokit.io.fetch import cache_path

REAL_HOSTS = published.HOSTS
OPTIONS, WEIGHTS = "options.json", "weights.hdf5"
NOBODY = "http://127.0.0.1:9/models"  # the discard port, where nothing listens
MEDIUM = "2x2048_256_2048cnn_1xhighway"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """A host on this machine that has the medium model."""
    folder = tmp_path / "server" / MEDIUM
    folder.mkdir(parents=True)
    (folder / f"elmo_{MEDIUM}_options.json").write_text("{}")
    (folder / f"elmo_{MEDIUM}_weights.hdf5").write_bytes(b"weights")
    handler = partial(QuietHandler, directory=str(tmp_path / "server"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(published, "HOSTS", (NOBODY, NOBODY + "/mirror"))


def test_four_models_were_published() -> None:
    sizes = {model.name: model.millions for model in PUBLISHED_MODELS}

    assert sizes == {"small": 13.6, "medium": 28.0, "original": 93.6, "original-5.5b": 93.6}
    assert all(model.description and "\n" not in model.description for model in PUBLISHED_MODELS)


def test_addresses_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", REAL_HOSTS)
    model = find_published("original-5.5b")

    assert model.urls(OPTIONS)[0] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json"
    )
    assert model.urls(WEIGHTS)[1] == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/"
        "2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )


@pytest.mark.parametrize("name", ["original-5.5b", "original-5.5B", "5.5B", "Original-5.5B"])
def test_large_model_answers_to_each_spelling(name: str) -> None:
    assert find_published(name).name == "original-5.5b"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("meduim", r"did you mean 'medium'\? there are: small, medium"),
        ("bert", r"'bert'; there are: small, .*original-5\.5b"),
    ],
)
def test_unknown_name_gets_the_nearest_and_all_names(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_published(name)


def test_download_gives_both_files(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))

    options, weights = download("medium")

    assert options.read_text() == "{}"
    assert weights.read_bytes() == b"weights"


def test_progress_follows_the_weights(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))
    calls: list[tuple[int, int | None]] = []

    download("medium", progress=lambda *call: calls.append(call))

    assert calls == [(0, 7), (7, 7)]


def test_second_address_is_tried_when_the_first_does_not_answer(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "HOSTS", (NOBODY, host))

    assert download("medium")[1].read_bytes() == b"weights"


def test_file_that_came_from_the_second_address_is_not_sought_again(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "HOSTS", (NOBODY, host))
    files = download("medium")
    monkeypatch.setattr("elmokit.io.fetch._open", None)

    assert download("medium") == files


def test_weights_whose_sum_is_known_are_compared_with_it() -> None:
    model = find_published("small")
    for url in (model.urls(OPTIONS)[0], model.urls(WEIGHTS)[0]):
        cache_path(url).parent.mkdir(exist_ok=True)
        cache_path(url).write_bytes(b"{}")

    with pytest.raises(FormatError, match=f"_weights.hdf5: is not what .*{model.sha256}"):
        download("small")


def test_cut_connection_is_not_begun_anew_at_the_second_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def cut(address: str, **_: object) -> Path:
        tried.append(address)
        raise CutShortError("run again")

    monkeypatch.setattr(published, "local_path", cut)
    assert "run again" in error_of(download, "medium", kind=CutShortError)

    assert len(tried) == 1


def test_offline_download_is_one_line_that_names_both_files() -> None:
    model = find_published("medium")

    message = error_of(download, "medium", kind=FetchError)
    for address in (model.urls(OPTIONS)[0], model.urls(WEIGHTS)[0]):
        assert address in message
        assert str(cache_path(address)) in message


def test_files_put_into_the_cache_by_hand_need_no_network() -> None:
    model = find_published("medium")
    cached = tuple(cache_path(model.urls(file)[0]) for file in (OPTIONS, WEIGHTS))
    for path in cached:
        path.parent.mkdir(exist_ok=True)
        path.touch()

    assert download("medium") == cached


def test_only_the_missing_file_is_named_when_weights_are_there() -> None:
    model = find_published("medium")
    cache_path(model.urls(WEIGHTS)[0]).parent.mkdir()
    cache_path(model.urls(WEIGHTS)[0]).touch()

    assert model.urls(WEIGHTS)[0] not in error_of(download, "medium", kind=FetchError)


# Softmaxes, and models in archives


def test_the_softmax_is_fetched_beside_the_weights_and_then_used(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))
    model = find_published("original")
    words = ["<S>", "</S>", "<UNK>", "the", "bank"]
    options = random_options()
    weights = random_weights(options, softmax_words=len(words))
    whole = write_files(tmp_path / "whole", options, weights)
    halves: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name, values in weights.items():
        halves["softmax" in name][name] = values
    folder = tmp_path / "server" / model.architecture
    for half, ending in zip(halves, ("weights", "softmax_weights"), strict=True):
        pair = write_files(tmp_path / ending, options, half)
        folder.mkdir(exist_ok=True)
        pair[0].rename(folder / f"elmo_{model.architecture}_options.json")
        pair[1].rename(folder / f"elmo_{model.architecture}_{ending}.hdf5")
    write(folder / model.vocabulary, words)

    assert "has no softmax" in error_of(LanguageModel.load, "original")
    assert [path.exists() for path in published.fetch("original", softmax=True)] == [True] * 4

    monkeypatch.setattr("elmokit.io.fetch._open", None)  # from now on from the cache
    assert_same_bits(read_model("original").weights, read_model(*whole).weights)
    assert LanguageModel.load("Original").vocabulary.words == tuple(words)


def test_a_softmax_that_is_in_a_checkpoint_alone_is_told() -> None:
    for name in ("small", "medium"):
        assert "TensorFlow checkpoint alone" in error_of(published.fetch, name, softmax=True)
    assert "without its softmax" in error_of(published.fetch, "efml-korean", softmax=True)


def test_every_name_of_download_is_a_model(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))
    for name in ("5.5B", "efml-korean", "original-5.5b"):
        assert is_published(name)
    assert len(published.EFML_LANGUAGES) == 44
    assert published.EFML_URLS["efml-korean"] == "http://vectors.nlpl.eu/repository/11/161.zip"
    assert published.EFML_URLS["efml-chinese-traditional"].endswith("/179.zip")
    assert "did you mean 'efml-korean'" in error_of(read_model, "efml-korea")
    message = error_of(read_model, "5.5B", kind=FetchError)
    assert message.startswith(f"{host}/2x4096_512_2048cnn_2xhighway_5.5B/")


def test_a_url_of_an_archive_is_a_model(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ko.model"
    write_small_model(folder)
    shutil.make_archive(str(tmp_path / "server" / "161"), "zip", tmp_path, "ko.model")
    for language, name in (("korean", "161"), ("latin", "162")):
        monkeypatch.setitem(published.EFML_URLS, f"efml-{language}", f"{host}/{name}.zip")

    for named in (f"{host}/161.zip", "efml-korean"):
        assert_same_bits(read_model(named).weights, read_model(folder).weights)
    assert "HTTP 404" in error_of(read_model, "efml-latin")


def test_the_memory_of_a_large_softmax_is_stated_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elmokit.formats.allennlp.LARGE_GIGABYTES", 1e-9)
    options = random_options()
    pair = write_files(tmp_path, options, random_weights(options, softmax_words=5))
    monkeypatch.setattr("elmokit.formats.allennlp.read_weights", error_of)  # not reached

    with pytest.raises(ElmoWarning, match=r"the softmax of 5 words takes 0\.0 GB of memory"):
        read_model(*pair)


def test_sizes_are_known_before_a_download() -> None:
    assert published.size_of("original") == "about 374 MB"
    assert published.size_of("5.5B", softmax=True) == "about 1,400 MB"
    assert "of a size that its server has to say" in published.size_of("efml-latin")
