"""spaCy, sentence-transformers, LanceDB, ONNX Runtime: the real libraries, at scale, on real data.

The vectors are those of `Embedder` but for rounding, on golden, bundled and Korean models.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from closeness import assert_agree, assert_close
from helpers import error_of, write
from small_models import write_small_model

from elmokit import Embedder, convert_model
from elmokit.system import check_version, needed_versions

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
MODELS: dict[str, Any] = {"english": None, "korean": "korean-small"} | {
    name: [str(DATA / name / file) for file in ("options.json", "lm_weights.hdf5")]
    for name in ("golden-bilm-tf", "golden-allennlp")
}
WORDS = (
    "The a river bank bank's account money 강 은행 이 돈 을 é naïve . , ! 42 supercalifragilistic"
)


def library(name: str) -> Any:
    """A library, whose own warnings as it starts are not ours."""
    with warnings.catch_warnings(action="ignore"):
        return pytest.importorskip(name, reason=f"{name} is an extra", exc_type=ImportError)


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    if request.param.startswith("golden") and not DATA.exists():
        pytest.skip("the golden models are in ../shared/data, which is not here")
    if request.param == "korean":
        pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    return MODELS[request.param]


def load(model: Any) -> Embedder:
    return Embedder.load(*model) if isinstance(model, list) else Embedder.load(model)


def random_batches() -> list[list[list[str]]]:
    """Twenty batches of sentences, one of 200 words in each."""
    draw = random.Random(3)
    lengths = [[1, 200, *(draw.randint(1, 30) for _ in range(4))] for _ in range(20)]
    return [[draw.choices(WORDS.split(), k=n) for n in batch] for batch in lengths]


def texts() -> list[str]:
    return [" ".join(words) for batch in random_batches() for words in batch] + [""]


# spaCy


@pytest.fixture
def spacy() -> Any:
    return library("spacy")


def docs_of(nlp: Any, sentences: list[list[str]]) -> list[Any]:
    module = importlib.import_module("spacy.tokens")
    return [module.Doc(nlp.vocab, words=words) for words in sentences]


@pytest.mark.slow
def test_tensors_of_spacy_are_those_of_embedder(spacy: Any, model: Any) -> None:
    embedder, nlp = load(model), spacy.blank("xx")
    component = nlp.add_pipe("elmo", config={"model": model, "keep_layers": True})
    layer = spacy.registry.architectures.get("elmokit.Tok2Vec.v1")(model)
    for batch in random_batches():
        docs = docs_of(nlp, batch)
        expected = embedder.embed_layers(batch)

        for doc, layers in zip(component.pipe(docs), expected, strict=True):
            assert_agree([doc._.elmo_layers], [layers])
            assert_close(doc.tensor, layers.mean(0))
        for training in (True, False):
            outputs, _ = layer(docs, is_train=training)
            assert_agree(outputs, [layers.mean(0) for layers in expected])


@pytest.mark.slow
def test_sentences_are_read_by_themselves_and_whitespace_is_no_word(spacy: Any) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo")
    embedder = Embedder.load()

    doc, blank, empty = nlp.pipe(["The river  bank. A bank account.", " \n ", ""])

    one, other = embedder.embed([["The", "river", "bank", "."], ["A", "bank", "account", "."]])
    words = [token.i for token in doc if not token.is_space]
    assert_close(doc.tensor[words], np.concatenate([one, other]))
    assert_close(doc.vector, np.concatenate([one, other]).mean(0))
    assert_close(doc[words[0] : words[3]].vector, one[:3].mean(0))
    banks = doc[words[2]], doc[words[5]]
    cosine = one[2] @ other[1] / np.linalg.norm(one[2]) / np.linalg.norm(other[1])
    assert banks[0].similarity(banks[1]) == pytest.approx(cosine)
    assert doc[:3].similarity(doc) == pytest.approx(doc.similarity(doc[:3]))
    assert banks[0].has_vector
    assert doc.has_vector
    assert blank.tensor.shape == (1, 256)
    assert blank.similarity(doc) == 0
    assert empty.tensor.shape == (0, 256)
    assert doc._.elmo_layers is None
    assert "keep_layers" in error_of(nlp.add_pipe, "elmo", "all", config={"layers": "all"})


@pytest.mark.slow
def test_pipeline_that_is_saved_finds_its_model_from_any_folder_and_takes_no_other(
    spacy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_small_model(Path("model"))
    write_small_model(Path("other"), seed=1)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": "model", "layers": "top"})
    expected = nlp("The river bank.").tensor
    nlp.to_disk("saved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    loaded = spacy.load(tmp_path / "saved")

    assert np.array_equal(loaded("The river bank.").tensor, expected)
    other = {"components.elmo.model": str(tmp_path / "other")}
    changed = spacy.load(tmp_path / "saved", config=other)
    assert "components.elmo.model" in error_of(changed, "The river bank.")
    doc = spacy.tokens.Doc(nlp.vocab).from_bytes(
        loaded("The river bank.").to_bytes(exclude=["user_hooks"])
    )
    assert np.array_equal(doc.tensor, expected)


@pytest.mark.slow
def test_gradient_of_the_mix_is_that_of_a_small_difference(spacy: Any, tmp_path: Path) -> None:
    layer = spacy.registry.architectures.get("elmokit.Tok2Vec.v1")(
        write_small_model(tmp_path / "model")
    )
    nlp, draw = spacy.blank("xx"), np.random.default_rng(0)
    docs = docs_of(nlp, [["The", "river"], ["bank"]])
    mix = draw.normal(size=4).astype("f")
    weights = [draw.normal(size=(len(doc), layer.get_dim("nO"))).astype("f") for doc in docs]

    def loss(values: Any) -> float:
        layer.set_param("mix", values.astype("f"))
        pairs = zip(layer.predict(docs), weights, strict=True)
        return float(sum((out.astype("d") * one).sum() for out, one in pairs))

    step = 1e-2 * np.eye(4)
    expected = [(loss(mix + one) - loss(mix - one)) / 2e-2 for one in step]
    layer.set_param("mix", mix)
    layer(docs, is_train=True)[1](weights)

    assert_close(layer.get_grad("mix"), expected, within=1e-3)


def tagged(part: str, most: int) -> list[tuple[list[str], list[str]]]:
    path = DATA / "ud-ewt" / f"en_ewt-ud-{part}.conllu.gz"
    if not path.exists():
        pytest.skip("UD English EWT is in ../shared/data, which is not here")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        blocks = file.read().strip().split("\n\n")[:most]
    rows = [[row.split("\t") for row in block.splitlines() if row[0] != "#"] for block in blocks]
    kept = [[row for row in sentence if row[0].isdecimal()] for sentence in rows]
    return [([row[1] for row in one], [row[3] for row in one]) for one in kept]


def accuracy_of_tagger(spacy: Any, folder: Path, tok2vec: dict[str, Any]) -> float:
    """Train spaCy's tagger on a thousand sentences; its accuracy after it was saved and read."""
    training = importlib.import_module("spacy.training")
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}}
    )

    def examples(part: str, most: int) -> list[Any]:
        pairs = tagged(part, most)
        docs = docs_of(nlp, [words for words, _ in pairs])
        known = [{"words": words, "tags": tags} for words, tags in pairs]
        return [training.Example.from_dict(*two) for two in zip(docs, known, strict=True)]

    train = examples("train.rebuilt", 1000)
    optimizer = nlp.initialize(lambda: train)
    draw = random.Random(0)
    for _ in range(6):
        draw.shuffle(train)
        for batch in spacy.util.minibatch(train, 32):
            nlp.update(batch, sgd=optimizer, drop=0.1)
    nlp.to_disk(folder)
    return spacy.load(folder).evaluate(examples("dev", 500))["tag_acc"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unusual word")
def test_tagger_of_spacy_learns_more_from_elmo_than_from_its_own_tok2vec(
    spacy: Any, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    own = {
        "@architectures": "spacy.HashEmbedCNN.v2",
        "pretrained_vectors": None,
        "width": 96,
        "depth": 4,
        "embed_size": 2000,
        "window_size": 1,
        "maxout_pieces": 3,
        "subword_features": True,
    }
    scores = {
        name: accuracy_of_tagger(spacy, tmp_path / name, tok2vec)
        for name, tok2vec in (("spacy", own), ("elmo", {"@architectures": "elmokit.Tok2Vec.v1"}))
    }

    for name, score in scores.items():
        record_property(name, score)
    sys.stdout.write(f"accuracy of spaCy's tagger: {scores}\n")
    assert scores["elmo"] > scores["spacy"]


# sentence-transformers


@pytest.fixture
def sentences() -> ModuleType:
    return library("sentence_transformers")


def sentence_model(sentences: Any, model: Any = None) -> Any:
    from elmokit.adaptors.sentence_transformers import ElmoModule

    modules = importlib.import_module("sentence_transformers.sentence_transformer.modules")
    elmo = ElmoModule(model)
    pooling = modules.Pooling(elmo.get_embedding_dimension(), "mean")
    return sentences.SentenceTransformer(modules=[elmo, pooling], device="cpu")


@pytest.mark.slow
def test_vectors_of_sentence_transformers_are_those_of_encode_saved_or_not(
    sentences: Any, model: Any, tmp_path: Path
) -> None:
    ours, embedder = sentence_model(sentences, model), load(model)
    expected = embedder.encode(texts(), layers="average")

    found = ours.encode(texts())
    for _ in range(2):  # a folder that is there is replaced
        ours.save_pretrained(str(tmp_path / "saved"))
    loaded = sentences.SentenceTransformer(
        str(tmp_path / "saved"), trust_remote_code=True, device="cpu"
    )

    assert_close(found, expected)
    assert np.array_equal(loaded.encode(texts()), found)
    inside = Embedder.load(tmp_path / "saved" / "0_ElmoModule")
    assert inside.fingerprint()
    assert_close(inside.encode(texts()[:6], layers="average"), expected[:6])


@pytest.mark.slow
def test_mix_is_trained_on_pairs_of_sentences_and_saved(sentences: Any, tmp_path: Path) -> None:
    path = DATA / "nli" / "sick.trial.tsv.gz"
    if not path.exists():
        pytest.skip("SICK is in ../shared/data, which is not here")
    datasets, losses = (
        library("datasets"),
        importlib.import_module("sentence_transformers.sentence_transformer.losses"),
    )
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:200]
    data = datasets.Dataset.from_dict(
        {
            "sentence1": [row["sentence_A"] for row in rows],
            "sentence2": [row["sentence_B"] for row in rows],
            "score": [(float(row["relatedness_score"]) - 1) / 4 for row in rows],
        }
    )
    model = sentence_model(sentences)
    weights = {name: value.clone() for name, value in model[0].bilm.state_dict().items()}

    def measures() -> tuple[float, float]:
        """The squared error that is trained on, and the correlation, which is not."""
        one, other = (model.encode(data[name]) for name in ("sentence1", "sentence2"))
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        cosines = (one * other).sum(1) / norms
        error = float(((cosines - data["score"]) ** 2).mean())
        return error, float(np.corrcoef(cosines, data["score"])[0, 1])

    before = measures()
    arguments = sentences.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"),
        num_train_epochs=3,
        learning_rate=0.1,
        per_device_train_batch_size=50,
        report_to="none",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    sentences.SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=data, loss=losses.CosineSimilarityLoss(model)
    ).train()
    after = measures()
    model.save_pretrained(str(tmp_path / "saved"))
    loaded = sentences.SentenceTransformer(
        str(tmp_path / "saved"), trust_remote_code=True, device="cpu"
    )

    sys.stdout.write(f"error and correlation on SICK: {before}, trained {after}\n")
    assert after[0] < 0.95 * before[0]
    assert model[0].mix.weights.tolist() == loaded[0].mix.weights.tolist() != [0, 0, 0]
    assert all(
        np.array_equal(value, weights[n])
        for n, value in loaded[0].bilm.state_dict().items()
        if n in weights
    )


@pytest.mark.slow
def test_no_more_words_are_read_than_max_seq_length_and_pairs_are_refused(sentences: Any) -> None:
    model = sentence_model(sentences)
    model.max_seq_length = 3
    expected = Embedder.load().encode(["The river bank"], layers="average")
    assert_close(model.encode(["The river bank is wide."]), expected)
    assert "give strings" in error_of(model.preprocess, [("one", "other")])


# LanceDB


def test_table_of_lancedb_embeds_its_texts_and_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="the extra lancedb is not installed")
    import lancedb
    from lancedb.pydantic import LanceModel, Vector

    from elmokit.adaptors.lancedb import ElmoFunction

    monkeypatch.chdir(tmp_path)
    write_small_model(Path("model"))
    elmo = ElmoFunction.create(model="model", layers="top")

    class Row(LanceModel):
        text: str = elmo.SourceField()
        vector: Vector(elmo.ndims()) = elmo.VectorField()  # type: ignore[valid-type]

    written = [text for text in texts() if text]
    table = lancedb.connect("tables").create_table("rows", schema=Row)
    table.add([{"text": text} for text in written])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    table = lancedb.connect(tmp_path / "tables").open_table("rows")

    stored = table.to_arrow().sort_by("text").to_pydict()
    expected = Embedder.load(tmp_path / "model").encode(stored["text"], layers="top")
    assert len(stored["text"]) == len(written)
    assert_close(stored["vector"], expected)
    nearest = table.search(written[7]).limit(1).to_list()[0]
    assert nearest["text"] == written[7]
    plain = ElmoFunction.create(model=str(tmp_path / "model"))
    embedder = Embedder.load(tmp_path / "model")
    assert_close(plain.compute_source_embeddings(written[:3]), embedder.encode(written[:3]))


@pytest.mark.parametrize("place", ["Original", "efml-korean", ["a", "http://localhost:1/w.hdf5"]])
def test_a_table_of_lancedb_fetches_no_model_unasked(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="the extra lancedb is not installed")
    from elmokit.adaptors.lancedb import ElmoFunction

    monkeypatch.setattr("elmokit.io.fetch._fetch", None)
    message = error_of(ElmoFunction.create(model=place).ndims)
    assert "which was not fetched here before; if you trust it: elmo info" in message


# ONNX Runtime, and LanceDB once more


def layers_by_onnx(model: Any, folder: Path) -> tuple[list[Any], list[Any]]:
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from elmokit.adaptors.onnx import OnnxEmbedder

    source = model if isinstance(model, list) else [model or "english-small"]
    convert_model(source, folder / "onnx", target="onnx")
    graph, embedder = OnnxEmbedder(folder / "onnx", threads=1), load(model)
    found, expected = (
        [array for batch in random_batches() for array in one.embed(batch, "all")]
        for one in (graph, embedder)
    )
    return found, expected


def vectors_by_lancedb(model: Any, folder: Path) -> tuple[list[Any], list[Any]]:
    pytest.importorskip("lancedb", reason="the extra lancedb is not installed")
    from elmokit.adaptors.lancedb import ElmoFunction

    found = [
        ElmoFunction.create(model=model, layers=layers).compute_source_embeddings(texts())
        for layers in ("average", 0)
    ]
    return found, [load(model).encode(texts(), layers) for layers in ("average", 0)]


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [layers_by_onnx, vectors_by_lancedb])
def test_vectors_are_those_of_embedder(vectors: Any, model: Any, tmp_path: Path) -> None:
    assert_agree(*vectors(model, tmp_path))


# What is missing


@pytest.mark.parametrize(
    ("module", "name", "extra"),
    [
        ("spacy", "spaCy", "spacy"),
        ("sentence_transformers", "sentence-transformers", "sentence-transformers"),
        ("lancedb", "LanceDB", "lancedb"),
        ("onnxruntime", "onnxruntime", "onnx"),
        ("huggingface_hub", "huggingface_hub", "hub"),
        ("keras", "Keras 3", "keras"),
        ("sklearn", "scikit-learn", "sklearn"),
    ],
)
@pytest.mark.parametrize("found", ["nothing", "another API", "an old version"])
def test_missing_and_old_libraries_are_one_line_that_names_the_install(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    extra: str,
    found: str,
) -> None:
    adaptor = f"elmokit.adaptors.{module}"
    distribution = "scikit-learn" if module == "sklearn" else module.replace("_", "-")
    for loaded in [one for one in sys.modules if one.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.delitem(sys.modules, adaptor, raising=False)
    if found == "nothing":
        monkeypatch.setitem(sys.modules, module, None)
    else:
        fails = "raise ImportError('no such\\nname')" if found == "another API" else ""
        write(tmp_path / module / "__init__.py", fails)
        monkeypatch.syspath_prepend(tmp_path)
        number = "999" if found == "another API" else "0.1.dev2"
        if extra == "spacy":
            number = number.replace("999", "3.99")
        monkeypatch.setattr("importlib.metadata.version", lambda name: number)
        check_version.cache_clear()

    if extra == "onnx":
        message = error_of(importlib.import_module("elmokit.adaptors.onnx").OnnxEmbedder, tmp_path)
    elif extra == "hub":
        message = error_of(Embedder.load, "hf://ada/my-elmo")
    else:
        message = error_of(importlib.import_module, adaptor)

    if found == "nothing":
        assert message == f'{name} is not installed; run: pip install "elmokit[{extra}]"'
        return
    if found == "another API":
        install = f"pip install --force-reinstall --no-deps {distribution}"
        assert message == f"{name} cannot be imported (no such name); run: {install}"
        return
    wanted = f"0.1.dev2, not {needed_versions(extra)[distribution]}"
    problem = f"{name} is of another version than needed ({wanted})"
    assert message == f'{problem}; run: pip install "elmokit[{extra}]"'


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        *(("3.8", True), ("3.8.0", True), ("3.99.1", True), ("3.8rc1", True), ("3.8+cpu.9", True)),
        *(("3.7.9", False), ("4", False), ("4.0.0", False), ("0.1.dev2", False)),
        *(("0+unknown", True), ("0+untagged.1.g5", True)),
    ],
)
def test_versions_are_compared_by_their_numbers(monkeypatch, found: str, taken: bool) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: found)
    monkeypatch.setattr("elmokit.system.needed_versions", lambda extra: {"spacy": "<4,>=3.8.0"})
    with nullcontext() if taken else pytest.raises(ImportError, match=f"{found}, not <4"):
        check_version.__wrapped__("spacy", "spacy")


def test_a_version_is_read_once_and_one_that_is_wrong_again(monkeypatch) -> None:
    asked, versions = [], {"spacy": "1"}
    monkeypatch.setattr("importlib.metadata.version", lambda n: asked.append(n) or versions[n])
    check_version.cache_clear()
    with pytest.raises(ImportError):
        check_version("spacy", "spacy")
    versions["spacy"] = "3.9"
    check_version("spacy", "spacy")
    check_version("spacy", "spacy")
    assert asked == ["spacy"] * 2
