"""Models on the Hugging Face Hub, against a stand-in of its HTTP API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest
from formats.small_hub import TOKEN, small_hub
from helpers import SLOWLY, error_of, files_in, write
from random_models import random_options, random_weights
from small_checkpoints import training_names, write_checkpoint
from small_models import write_small_model
from tasks.small_tasks import ONE_EPOCH, train, write_bilm

from elmokit import Embedder
from elmokit.errors import InputError
from elmokit.formats.find import read_model
from elmokit.tasks.trained import BilmReference, TrainedTask

Run = Callable[..., str]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Run]:
    """Runs a program that knows the stand-in as the Hub; its repositories are in tmp_path/hub."""
    pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")
    (tmp_path / "hub").mkdir()
    with small_hub(tmp_path / "hub") as url:

        def run(*command: str, **variables: str) -> str:
            settings = {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
            environment = {**os.environ, **settings, "HF_HUB_DISABLE_XET": "1", **variables}
            done = subprocess.run(
                [sys.executable, *command],
                env=environment,
                capture_output=True,
                text=True,
                timeout=SLOWLY,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout + done.stderr

        yield run


@pytest.mark.slow
def test_a_folder_that_the_hubs_own_command_published_loads_by_its_name(
    tmp_path: Path, hub: Run
) -> None:
    folder = write_small_model(tmp_path / "model")
    names = ["ada/my-elmo", "ada/private-elmo"]

    for name in names:
        hub("-m", "huggingface_hub.cli.hf", "upload", name, folder)
        assert files_in(tmp_path / "hub" / name) == files_in(Path(folder))

    places = [f"hf://{name}{revision}" for name in names for revision in ("", "@v1")]
    code = "import sys\nfrom elmokit import Embedder\nfor model in sys.argv[1:]:\n"
    code += "    print(Embedder.load(model).fingerprint())"
    expected = Embedder.load(folder).fingerprint()
    assert hub("-c", code, *places).split() == [expected] * len(places)
    assert hub("-c", code, *places, HF_HUB_OFFLINE="1").split() == [expected] * len(places)
    assert '"vector size": 12' in hub("-m", "elmokit", "info", places[0], "--json")


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"HF_TOKEN": "hf_wrong"}, {"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}],
)
def test_what_cannot_be_fetched_is_one_line(
    tmp_path: Path, hub: Run, variables: dict[str, str]
) -> None:
    names = ["ada/nothing", "ada/private-elmo", "ada/my-elmo@v2"]
    for published in ("my-elmo", "private-elmo"):
        write_small_model(tmp_path / "hub" / "ada" / published)
    code = """
import sys
from elmokit import ElmoError, Embedder
for name in sys.argv[1:]:
    try:
        Embedder.load(name)
    except ElmoError as error:
        print(error)
"""

    lines = hub("-c", code, *(f"hf://{name}" for name in names), **variables).splitlines()

    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert line.startswith(f"hf://{name}: cannot be fetched (")
        assert line.endswith("`hf auth login`")


@pytest.mark.parametrize("name", ["hf://", "hf://elmo", "hf://a/b/c", "hf://a b/c"])
def test_what_is_no_name_on_the_hub_is_an_error(name: str) -> None:
    assert "must be hf://user/name" in error_of(Embedder.load, name, kind=InputError, after=name)


class HubCache(ModuleType):
    """Lays files out as the Hub's library does: links into `blobs`; only what is asked for."""

    def __init__(self, published: Path, home: Path) -> None:
        super().__init__("huggingface_hub")
        self.published, self.home = published, home
        self.fetched = 0

    def snapshot_download(
        self, *, repo_id: str, allow_patterns: list[str], local_files_only: bool, **_: object
    ) -> str:
        snapshot = self.home / f"models--{repo_id.replace('/', '--')}" / "snapshots" / "c0ffee"
        if local_files_only and not snapshot.exists():
            raise OSError("it is not in the cache")
        for name in () if snapshot.exists() else sorted(files_in(self.published)):
            if any(fnmatch(name, pattern) for pattern in allow_patterns):
                self.fetched += 1
                blob, link = snapshot.parents[1] / "blobs" / str(self.fetched), snapshot / name
                for path in (blob, link):
                    path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.published / name, blob)
                link.symlink_to(os.path.relpath(blob, link.parent))
        return str(snapshot)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubCache:
    library = HubCache(tmp_path / "published", tmp_path / "home")
    monkeypatch.setitem(sys.modules, "huggingface_hub", library)
    return library


@pytest.mark.parametrize("inside", ["", "model"])
def test_the_card_comes_with_the_model(cache: HubCache, inside: str) -> None:
    folder = Path(write_small_model(cache.published / inside))
    assert read_model("hf://ada/my-elmo").card == (folder / "README.md").read_text()


def test_a_task_finds_its_bilm_in_the_hubs_cache(cache: HubCache, tmp_path: Path) -> None:
    write_bilm(cache.published)
    task = train(tmp_path, "spam", ONE_EPOCH, bilm=BilmReference("hf://ada/my-elmo")).folder
    assert TrainedTask.load(task).predict(["Win a prize now"])
    shutil.rmtree(cache.home)
    message = error_of(TrainedTask.load, task, kind=InputError)
    assert "its biLM is hf://ada/my-elmo, which was not fetched here before" in message


@pytest.mark.parametrize("prefix", ["model.ckpt-7", "variables/variables", "saves/model"])
def test_checkpoints_on_the_hub_are_fetched_whole(cache: HubCache, prefix: str) -> None:
    options = random_options()
    write_checkpoint(cache.published / prefix, training_names(random_weights(options)))
    write(cache.published / "options.json", json.dumps(options))
    write(cache.published / "encoder.pkl", "of somebody")

    found = Embedder.load("hf://ada/my-elmo")

    assert found.fingerprint() == Embedder.load(cache.published / prefix).fingerprint()
    assert cache.fetched == len(files_in(cache.published)) - 1
