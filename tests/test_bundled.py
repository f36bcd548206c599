from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from closeness import assert_agree
from helpers import ROOT, assert_same_bits, error_of, run_python

from elmokit import Embedder, LanguageModel, StaticVectors
from elmokit.bundled import (
    BUNDLED,
    BUNDLED_MODELS,
    BUNDLED_VECTORS,
    ENGLISH_SMALL,
    known_versions,
    version_of,
)
from elmokit.errors import InputError
from elmokit.formats.convert import convert_model
from elmokit.formats.find import read_model
from elmokit.formats.native import parameter_count

SENTENCES = [["He", "sat", "on", "the", "river", "bank", "."], ["She", "opened", "an", "account"]]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder.load()


@pytest.fixture(scope="module")
def language_model() -> LanguageModel:
    return LanguageModel.load()


def test_embedder_loads_without_a_name_and_by_its_name(embedder: Embedder) -> None:
    layers = embedder.embed_layers(SENTENCES)
    assert [value.shape[:2] for value in layers] == [(3, 7), (3, 4)]
    assert 256 <= layers[0].shape[2] <= 512
    assert all(np.isfinite(value).all() for value in layers)
    named = Embedder.load("English-Small")
    assert_same_bits(named.bilm.state_dict(), embedder.bilm.state_dict())


@pytest.mark.parametrize("name", BUNDLED_MODELS)
def test_version_of_a_bundled_model_is_the_last_of_those_that_are_known(name: str) -> None:
    version = read_model(name, softmax=False).version

    assert version_of(Embedder.load(name).fingerprint()) == version
    known = [each for each in known_versions().values() if each.startswith(f"{name} ")]
    assert known == [f"{name} {number}" for number in range(1, len(known) + 1)]
    assert version == known[-1]
    assert f"| version | {version} |" in (BUNDLED / name / "README.md").read_text("utf-8")


def test_folder_of_the_same_name_here_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ENGLISH_SMALL).mkdir()
    monkeypatch.chdir(tmp_path)
    assert "holds neither config.json" in error_of(Embedder.load, ENGLISH_SMALL, kind=InputError)


def test_folders_are_those_named_and_small() -> None:
    shipped = [path for path in BUNDLED.iterdir() if path.is_dir()]
    named = {*BUNDLED_MODELS, *BUNDLED_VECTORS}
    assert {path.name for path in shipped} - {"__pycache__"} == named
    for folder in shipped:
        most = 8_000_000 if folder.name in BUNDLED_VECTORS else 20_000_000
        assert sum(file.stat().st_size for file in folder.rglob("*")) <= most


def test_word2vec_is_read_without_gensim_and_knows_its_neighbours() -> None:
    program = """
import sys
sys.modules["gensim"] = None  # an import of it fails
from elmokit.static.vectors import StaticVectors
vectors = StaticVectors.load()
print(*(word for word, _ in vectors.neighbours("river", top=10)))
"""
    assert {"creek", "lake", "rivers", "tributary"} & set(run_python(program).split())


def test_vectors_of_korean_morphemes_are_loaded_by_name() -> None:
    vectors = StaticVectors.load("korean-small-word2vec")
    assert "엄마" in {word for word, _ in vectors.neighbours("아빠", top=3)}


def test_vocabulary_is_large_and_in_order(language_model: LanguageModel) -> None:
    vocabulary = language_model.vocabulary
    assert len(vocabulary) >= 30_000
    assert vocabulary.counts is not None
    counts = list(vocabulary.counts)[3:]
    assert counts == sorted(counts, reverse=True)


def test_more_likely_than_guessing_by_frequency(language_model: LanguageModel) -> None:
    words = "The city was founded by the Romans in the second century and has a large harbour ."
    perplexity = language_model.perplexity([words.split()])
    assert perplexity.forward < 200
    assert perplexity.backward < 200


def test_words_in_order_are_likelier_than_the_same_words_shuffled(
    language_model: LanguageModel,
) -> None:
    words = "She opened the door and looked out of the window at the garden .".split()  # noqa: SIM905
    shuffled = [words[place] for place in np.random.default_rng(0).permutation(len(words))]
    in_order, disordered = (language_model.perplexity([one]).mean for one in (words, shuffled))
    assert in_order < disordered / 4


def test_cat_looks_out_of_the_window(language_model: LanguageModel) -> None:
    before, after = ["The", "cat", "is", "looking", "out", "of", "the"], ["."]
    candidates = ["aquarium", "cycling", "pool", "window"]
    ranked = language_model.rank(before, candidates, after)
    assert ranked[0].word == "window"
    assert all(one.known for one in ranked)


def test_bank_of_a_river_is_nearer_to_its_like_than_to_one_for_money(embedder: Embedder) -> None:
    river, shore, money = (
        embedder.embed_layers([words])[0][:, words.index("bank")]
        for words in (
            ["They", "walked", "along", "the", "bank", "of", "the", "river", "."],
            ["The", "village", "lies", "on", "the", "east", "bank", "of", "the", "stream", "."],
            ["He", "borrowed", "the", "money", "from", "a", "bank", "in", "London", "."],
        )
    )

    def cosine(one: np.ndarray, other: np.ndarray) -> float:
        return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))

    assert cosine(river[0], shore[0]) == pytest.approx(1.0)
    assert cosine(river[2], shore[2]) > cosine(river[2], money[2])


def test_bundled_model_is_converted_like_any_other(tmp_path: Path) -> None:
    with pytest.warns(match="an adaptive softmax has no place"):
        convert_model([ENGLISH_SMALL], tmp_path / "pair")
    options, weights = tmp_path / "pair" / "options.json", tmp_path / "pair" / "weights.hdf5"
    converted = Embedder.load(options, weights)
    assert_agree(converted.embed(SENTENCES), Embedder.load().embed(SENTENCES))


def test_card_tells_what_people_must_know() -> None:
    saved = read_model()
    told = "public domain|perplexity|Kneser-Ney|WikiText-2|zero|carry|warm|bias|CC BY-SA 3.0"
    numbers = [parameter_count(saved.weights), saved.config.softmax_words]
    for needed in (*told.split("|"), "runs/english-small.toml", *(f"{n:,}" for n in numbers)):
        assert needed in saved.card, needed
    assert not re.search(r"\bTODO\b|\?\?", saved.card)


def test_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "elmokit", source / "elmokit", ignore=without)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("elmokit-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for file in (source / "elmokit").rglob("*.*"):
            if file.is_file():
                assert archive.read(str(file.relative_to(source))) == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "language", "least"), [(None, "en", 0.1), ("korean-small", "ko", 0.5)]
)
def test_the_page_opens_with_a_gap_that_the_model_fills_well(name, language, least):
    if language == "ko":
        pytest.importorskip("kiwipiepy", reason="the extra korean is not installed")
    page = (ROOT / "elmokit" / "service" / "page" / "examples.js").read_text(encoding="utf-8")
    examples = dict(
        re.findall(r'(\w+): "(.*)",', page.partition(f"  {language}: {{")[2].partition("}")[0])
    )
    model = LanguageModel.load(name)
    place = model.find_place(examples["gap"])
    candidates = examples["candidates"].split(", ")
    ranked = model.rank(place.before, candidates, place.after)
    assert (ranked[0].word, all(word.known for word in ranked)) == (candidates[0], True)
    assert ranked[0].probability > least
    (scored,) = model.score(model.split(examples["scored"]))
    assert -scored.total / (2 * len(scored.words) + 2) < 5 * math.log(2)  # bits a word
