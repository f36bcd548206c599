from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from elmokit.errors import CutShortError, FetchError, InputError
from elmokit.formats import find as published
from elmokit.formats.find import PUBLISHED_MODELS, download, find_published
from elmokit.io.fetch import cache_path

REAL_HOSTS = published.HOSTS
NOBODY = "http://127.0.0.1:9/models"  # the discard port, where nothing listens
SMALL = "2x1024_128_2048cnn_1xhighway"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """A host on this machine that has the small model."""
    folder = tmp_path / "server" / SMALL
    folder.mkdir(parents=True)
    (folder / f"elmo_{SMALL}_options.json").write_text("{}")
    (folder / f"elmo_{SMALL}_weights.hdf5").write_bytes(b"weights")
    handler = partial(QuietHandler, directory=str(tmp_path / "server"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(published, "HOSTS", (NOBODY, NOBODY + "/mirror"))


def test_four_models_were_published() -> None:
    sizes = {model.name: model.millions for model in PUBLISHED_MODELS}

    assert sizes == {"small": 13.6, "medium": 28.0, "original": 93.6, "original-5.5b": 93.6}
    assert all(model.description and "\n" not in model.description for model in PUBLISHED_MODELS)


def test_addresses_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", REAL_HOSTS)
    model = find_published("original-5.5b")

    assert model.options[0] == (
        "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway_5.5B/"
        "elmo_2x4096_512_2048cnn_2xhighway_5.5B_options.json"
    )
    assert model.weights[1] == (
        "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo/"
        "2x4096_512_2048cnn_2xhighway_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B_weights.hdf5"
    )


@pytest.mark.parametrize("name", ["original-5.5b", "original-5.5B", "5.5B", "Original-5.5B"])
def test_large_model_answers_to_each_spelling(name: str) -> None:
    assert find_published(name).name == "original-5.5b"


def test_misspelt_name_gets_the_nearest_and_all_names() -> None:
    with pytest.raises(InputError, match=r"did you mean 'medium'\? there are: small, medium"):
        find_published("meduim")


def test_name_like_no_other_gets_all_names() -> None:
    with pytest.raises(InputError, match=r"'bert'; there are: small, .*original-5\.5b"):
        find_published("bert")


def test_download_gives_both_files(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))

    files = download("small")

    assert files.options.read_text() == "{}"
    assert files.weights.read_bytes() == b"weights"


def test_progress_follows_the_weights(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "HOSTS", (host,))
    calls: list[tuple[int, int | None]] = []

    download("small", progress=lambda *call: calls.append(call))

    assert calls == [(0, 7), (7, 7)]


def test_second_address_is_tried_when_the_first_does_not_answer(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "HOSTS", (NOBODY, host))

    assert download("small").weights.read_bytes() == b"weights"


def test_file_that_came_from_the_second_address_is_not_sought_again(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "HOSTS", (NOBODY, host))
    files = download("small")
    monkeypatch.setattr(published, "local_path", None)

    assert download("small") == files


def test_cut_connection_is_not_begun_anew_at_the_second_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def cut(address: str, **_: object) -> Path:
        tried.append(address)
        raise CutShortError("run again")

    monkeypatch.setattr(published, "local_path", cut)
    with pytest.raises(CutShortError, match="run again"):
        download("small")

    assert len(tried) == 1


def test_offline_download_is_one_line_that_names_both_files() -> None:
    model = find_published("small")

    with pytest.raises(FetchError) as error:
        download("small")

    message = str(error.value)
    assert "\n" not in message
    for address in (model.options[0], model.weights[0]):
        assert address in message
        assert str(cache_path(address)) in message


def test_files_put_into_the_cache_by_hand_need_no_network() -> None:
    model = find_published("small")
    for address in (model.options[0], model.weights[0]):
        cache_path(address).parent.mkdir(exist_ok=True)
        cache_path(address).touch()

    assert download("small") == (cache_path(model.options[0]), cache_path(model.weights[0]))


def test_only_the_missing_file_is_named_when_weights_are_there() -> None:
    model = find_published("small")
    cache_path(model.weights[0]).parent.mkdir()
    cache_path(model.weights[0]).touch()

    with pytest.raises(FetchError) as error:
        download("small")

    assert model.weights[0] not in str(error.value)
