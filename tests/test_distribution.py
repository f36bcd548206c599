"""The wheel and the source package: what is in them, and that they work once installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from helpers import ROOT, run_python, write

import elmokit
from elmokit.bundled import BUNDLED_MODELS, BUNDLED_VECTORS

pytest.importorskip("build")
LARGEST = 60 * 10**6
EXTRAS = "analysis,keras,korean,onnx,parquet,plots,service,sklearn,static,tasks,zstd"

METADATA = """
import sys
from pathlib import Path
from setuptools.build_meta import prepare_metadata_for_build_wheel
to = Path(sys.argv[1])
folder = prepare_metadata_for_build_wheel(to)
print("metadata:" + (to / folder / "METADATA").read_text())
"""
CONTENTS = """
import json
from setuptools import Distribution
distribution = Distribution({"script_name": "-c"})
distribution.parse_config_files()
build = distribution.get_command_obj("build_py")
build.ensure_finalized()
files = [file[len(build.build_lib) + 1:] for file in build.get_outputs(include_bytecode=False)]
print(json.dumps(files))
"""


def package_files() -> set[str]:
    """All files of the package, from the root of the repository."""
    found = (path for path in (ROOT / "elmokit").rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if path.suffix != ".pyc"}


def test_the_metadata_have_the_version_the_licences_and_the_extras(tmp_path):
    printed = run_python(METADATA, tmp_path).partition("metadata:")[2]
    found = message_from_string(printed)
    assert (found["Name"], found["Version"]) == ("elmokit", elmokit.__version__)
    assert found["License-Expression"] == "Apache-2.0"
    assert found.get_all("License-File") == ["LICENSE", "NOTICE"]
    assert {*EXTRAS.split(",")} < {*found.get_all("Provides-Extra")}
    assert found.get_payload().startswith("# elmokit")


def test_the_wheel_has_every_file_of_the_package_and_no_more():
    files = set(json.loads(run_python(CONTENTS).splitlines()[-1]))
    assert files == package_files()
    assert sum((ROOT / file).stat().st_size for file in files) < LARGEST
    for name in (*BUNDLED_MODELS, *BUNDLED_VECTORS):
        kept = [file for file in files if file.startswith(f"elmokit/bundled/{name}/")]
        assert {Path(file).suffix for file in kept} >= {".md", ".safetensors"}
    assert {"elmokit/py.typed", "elmokit/tasks/catalogue.toml"} < files
    for suffix in ("pretraining/recipes/modern.toml", "service/page/index.html"):
        assert f"elmokit/{suffix}" in files


def test_the_version_is_the_same_wherever_it_stands():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {elmokit.__version__}\n" in citation
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changes, re.M)[0] == elmokit.__version__
    for page in ("README.md", "README.ko.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert {*re.findall(r"elmokit-([\d.]+)-py3", text)} <= {elmokit.__version__}


def test_notice_names_every_bundled_model_and_its_sources():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for name in (*BUNDLED_MODELS, *BUNDLED_VECTORS):
        assert name in notice
    for said in ("CC BY-SA 3.0", "Project Gutenberg", "CC0", "NLTK Project", "TREEBANK_RULES"):
        assert said in notice


# What follows builds both, installs them and runs the command: a minute


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel and the source package of ELMO_DIST, or built from a copy of what git knows."""
    if given := os.environ.get("ELMO_DIST"):
        return files_of(Path(given))
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this is not a clone: git lists no files")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            write(source / name, (ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return files_of(dist)


def files_of(dist: Path) -> tuple[Path, Path]:
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return wheel, sdist


@pytest.mark.slow
def test_the_source_package_has_all_of_the_repository_and_the_wheel_the_package_alone(built):
    wheel, sdist = built
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert wheel.stat().st_size < LARGEST
    information = f"elmokit-{elmokit.__version__}.dist-info/"
    assert {name for name in names if not name.startswith(information)} == package_files()
    assert {f"{information}licenses/LICENSE", f"{information}licenses/NOTICE"} < set(names)
    with tarfile.open(sdist) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    command = ["git", "ls-files"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    left_out = {name for name in listed if (ROOT / name).exists()} - inside
    assert left_out <= {".gitignore"}


class Installed:
    """An environment with elmokit's libraries, without elmokit and without a network."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "v" / "bin"
        subprocess.run([sys.executable, "-m", "venv", str(folder / "v")], check=True)
        [site] = (folder / "v").glob("lib/python*/site-packages")
        libraries = folder / "libraries"
        libraries.mkdir()
        for path in Path(pytest.__file__).parents[1].iterdir():
            if "elmokit" not in path.name.lower() and not path.name.startswith("pip"):
                (libraries / path.name).symlink_to(path)
        (site / "libraries.pth").write_text(f"{libraries}\n")
        self.run("pip", "uninstall", "--yes", "setuptools")  # Python 3.11 brings an old one

    def run(self, *command: str) -> str:
        """What a command prints, outside of the repository."""
        kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        nowhere = "http://127.0.0.1:9"
        network = {"http_proxy": nowhere, "https_proxy": nowhere, "PIP_NO_INDEX": "1"}
        own = {"ELMOKIT_CACHE": str(self.folder / "cache"), "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env={**kept, **network, **own},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
        return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_works_offline_in_a_clean_environment(built, kind, tmp_path):
    place, file = Installed(tmp_path), built[kind == "sdist"]
    if kind == "wheel":
        place.run("pip", "install", "--find-links", str(file.parent), "elmokit")
    else:
        place.run("pip", "install", "--no-build-isolation", str(file))

    assert place.run("elmo", "--version") == f"elmo, version {elmokit.__version__}\n"
    home = place.run("python", "-c", "import elmokit; print(elmokit.__file__)")
    assert Path(home.strip()).is_relative_to(tmp_path)
    assert "8,668,554" in place.run("elmo", "info")
    sentences = ["They sat on the river bank .", "She has a bank account ."]
    assert "layer 2 (top)" in place.run("elmo", "compare", "bank", *sentences)
    korean = ("배가 고파서 밥을 먹었다.", "배를 타고 섬에 갔다.")
    assert "[배]" in place.run("elmo", "compare", "배", *korean, "--model", "korean-small")
    write(tmp_path / "text.txt", sentences)
    place.run("elmo", "embed", "text.txt", "-o", "vectors.h5")
    assert (tmp_path / "vectors.h5").stat().st_size > 14 * 256 * 4
    assert "modern" in place.run("elmo", "pretrain", "--list")
    assert "ner" in place.run("elmo", "task", "train", "--help")
    shown = "from importlib.resources import files; print(files('elmokit.service') / 'page')"
    assert (Path(place.run("python", "-c", shown).strip()) / "index.html").is_file()

    # As errors name it: pip takes the elmokit that is installed, whatever an index has.
    said = place.run("pip", "install", f"elmokit[{EXTRAS}]")
    assert f"already satisfied: elmokit[{EXTRAS}]" in said
    # As the README has it, for a wheel: the file with extras, in an environment without elmokit.
    if kind == "wheel":
        place.run("pip", "uninstall", "--yes", "elmokit")
        place.run("pip", "install", f"{file}[korean,tasks]")
