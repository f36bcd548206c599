from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from allennlp_samples import LAYERS, SIZE, Files
from random_models import Options, Weights, random_options, random_weights, write_files


@pytest.fixture(scope="module")
def model() -> tuple[Options, Weights]:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return options, random_weights(options, seed=3)


@pytest.fixture(scope="module")
def files(model: tuple[Options, Weights], tmp_path_factory: pytest.TempPathFactory) -> Files:
    return write_files(tmp_path_factory.mktemp("model"), *model)


@pytest.fixture(scope="module")
def other_files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    options = random_options(layers=LAYERS - 1, projection=SIZE // 2)
    return write_files(tmp_path_factory.mktemp("other"), options, random_weights(options, seed=4))


@pytest.fixture
def address(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a server on this machine offers the folder of the model."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(files[0].parent)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()
