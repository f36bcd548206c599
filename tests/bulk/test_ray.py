from __future__ import annotations

import random
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from closeness import assert_agree
from small_models import small_bilm

from elmokit import Embedder
from elmokit.bulk import pipeline
from elmokit.bulk import ray as engine
from elmokit.bulk import ray as shards_module
from elmokit.bulk.inputs import InputSettings, open_input
from elmokit.bulk.pipeline import described, embed_files, facts_of, resume_hint
from elmokit.bulk.ray import (
    PartCollector,
    PartFolder,
    PartKey,
    PartWriter,
    shards_of,
    with_first_rows,
)
from elmokit.bulk.spool import Spool
from elmokit.errors import InputError, StoppedError
from elmokit.inference.lookup import CachedEmbedder
from elmokit.vectors.files import open_vectors, read_vectors
from elmokit.vectors.items import VectorSettings

parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")

TOKENS = 120


def embedder(**settings) -> Embedder:
    return Embedder(small_bilm(), tokenizer="whitespace", **settings)


def write_text(folder, files=3, lines=40) -> list[str]:
    """Files of sentences, some of them blank, some of them twice."""
    draw = random.Random(7)
    words = [f"word{number}" for number in range(50)]
    names = []
    for number in range(files):
        sentences = [" ".join(draw.choices(words, k=draw.randrange(12))) for _ in range(lines)]
        path = folder / f"text{number}.txt"
        path.write_text("\n".join([*sentences, sentences[0]]), encoding="utf-8")
        names.append(str(path))
    return names


def columns(path) -> tuple[list, list, list[np.ndarray]]:
    """Ids, words and vectors of a Parquet file, or of a folder in the order of its files."""
    files = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [path]
    tables = [parquet.read_table(file, partitioning=None) for file in files]
    ids, words, vectors = (
        [value for table in tables for value in table.column(name).to_pylist()]
        for name in ("id", "words", "vectors")
    )
    kind = tables[0].column("vectors").type
    while hasattr(kind, "value_type"):  # lists of lists of numbers
        kind = kind.value_type
    return ids, words, [np.array(vector, kind.to_pandas_dtype()) for vector in vectors]


def assert_same(first, second) -> None:
    (ids, words, vectors), (other_ids, other_words, other_vectors) = columns(first), columns(second)
    assert ids == other_ids
    assert words == other_words
    assert_agree(vectors, other_vectors)


def ray_facts(model, source, settings):
    return facts_of(model, source, settings, engine.worker_facts(settings))


def run_by_hand(model, source, output, settings) -> PartCollector:
    """What Ray does with the shards and the writers, one after another, in any order."""
    facts = ray_facts(model, source, settings)
    spool = Spool(output, facts, pooled=False)
    spool.begin(resume=False, force=False)
    parts = PartFolder(spool.folder)
    arrivals = PartCollector(parts, parts.begin(), source.position()[1], None)
    shards = shards_of(source, TOKENS)
    if source.settings.keep is None:
        shards = with_first_rows(shards, [shard.rows() for shard in shards[:-1]])
    settings = described(settings, model, facts)
    writers = [PartWriter(model, settings.layers, settings, parts) for _ in range(2)]
    messages = [message for shard in shards for message in shard.parts()]
    random.Random(1).shuffle(messages)
    arrivals.collect(
        writers[number % 2].write(message) if "words" in message else message
        for number, message in enumerate(messages)
    )
    arrivals.check_whole(len(shards))
    parts.publish(output, arrivals.done, numbered=source.settings.keep is None)
    return arrivals


@pytest.mark.parametrize(
    "settings",
    [
        VectorSettings(),
        VectorSettings(layers="all", dtype="float16", compression="zstd"),
        VectorSettings(layers="1", pool="mean"),
    ],
)
def test_parts_hold_what_the_local_engine_writes(tmp_path, monkeypatch, settings):
    monkeypatch.setattr(shards_module, "BYTES_PER_SHARD", 1)
    files = write_text(tmp_path)
    local = embed_files(
        embedder(), open_input(files, InputSettings()), tmp_path / "local.parquet", settings
    )
    source = open_input(files, InputSettings())
    run = run_by_hand(embedder(), source, tmp_path / "ray.parquet", settings)
    assert len(list((tmp_path / "ray.parquet").iterdir())) > 6
    assert_same(tmp_path / "ray.parquet", tmp_path / "local.parquet")
    ours, theirs = read_vectors(tmp_path / "ray.parquet"), read_vectors(tmp_path / "local.parquet")
    for one, other in zip(ours, theirs, strict=True):
        assert (one.sentence, one.id) == (other.sentence, other.id)
        # They are read as float32, whatever they were stored as.
        assert_agree(*([item.vectors.astype(settings.dtype)] for item in (one, other)))
    paths = (tmp_path / "ray.parquet", tmp_path / "local.parquet")
    with open_vectors(paths[0]) as one, open_vectors(paths[1]) as whole:
        assert one.description == whole.description
    totals = (run.totals["sentences"], run.totals["words"], run.totals["blank"])
    assert totals == (local.sentences, local.words, local.blank)


def test_parts_serve_in_the_place_of_an_embedder(tmp_path):
    files = write_text(tmp_path)
    source = open_input(files, InputSettings())
    run_by_hand(embedder(), source, tmp_path / "ray.parquet", VectorSettings(layers="top"))
    cached = CachedEmbedder(tmp_path / "ray.parquet")
    sentences = [line.split() for line in Path(files[1]).read_text("utf-8").split("\n")]
    assert_agree(cached.embed(sentences, "top"), embedder().embed(sentences, "top"))
    cached.close()


def test_ids_of_the_input_are_kept(tmp_path):
    path = tmp_path / "table.jsonl"
    path.write_text("".join(f'{{"text": "a b", "key": "k{n}"}}\n' for n in range(50)))
    source = open_input([str(path)], InputSettings(column="text", keep="key"))
    run_by_hand(embedder(), source, tmp_path / "ray.parquet", VectorSettings())
    assert columns(tmp_path / "ray.parquet")[0] == [f"k{n}" for n in range(50)]
    assert [item.id for item in read_vectors(tmp_path / "ray.parquet")] == [
        f"k{n}" for n in range(50)
    ]


def test_ids_of_different_kinds_in_different_parts_are_refused(tmp_path):
    path = tmp_path / "table.jsonl"
    keys = [*range(30), *(f'"k{n}"' for n in range(30))]
    path.write_text("".join(f'{{"text": "a b", "key": {key}}}\n' for key in keys))
    source = open_input([str(path)], InputSettings(column="text", keep="key"))
    with pytest.raises(InputError, match="hold one kind"):
        run_by_hand(embedder(), source, tmp_path / "ray.parquet", VectorSettings())


def test_input_without_a_sentence_is_refused(tmp_path):
    (tmp_path / "blank.txt").write_text(" \n \n")
    source = open_input([str(tmp_path / "blank.txt")], InputSettings(split=True))
    with pytest.raises(InputError, match="holds no sentence"):
        run_by_hand(embedder(), source, tmp_path / "ray.parquet", VectorSettings())


def test_state_that_is_carried_from_sentence_to_sentence_is_refused(tmp_path):
    source = open_input(write_text(tmp_path), InputSettings())
    with pytest.raises(InputError, match=r"'carry'.*cannot be spread over machines"):
        engine.check_spreadable(embedder(state="carry"), source, "vectors.parquet")


def test_stream_is_refused():
    source = open_input(["-"], InputSettings())
    with pytest.raises(InputError, match="stream cannot be read by other machines"):
        engine.check_spreadable(embedder(), source, "vectors.parquet")


def test_other_formats_than_parquet_are_refused(tmp_path):
    source = open_input(write_text(tmp_path), InputSettings())
    with pytest.raises(InputError, match=r"vectors\.h5: .*ends in \.parquet"):
        engine.check_spreadable(embedder(), source, "vectors.h5")


def test_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray.data", None)
    source = open_input(write_text(tmp_path), InputSettings())
    with pytest.raises(InputError, match=r"pip install 'elmokit\[ray\]'"):
        engine.embed_with_ray(embedder(), source, tmp_path / "vectors.parquet")


@pytest.mark.parametrize("began", ["local", "ray"])
def test_unfinished_run_of_one_engine_is_not_taken_for_one_of_the_other(tmp_path, began):
    source = open_input(write_text(tmp_path), InputSettings())
    model, settings, output = embedder(), VectorSettings(), tmp_path / "vectors.parquet"
    facts = {
        "local": facts_of(model, source, settings),
        "ray": ray_facts(model, source, settings),
    }
    first = Spool(output, facts.pop(began), pooled=False)
    first.begin(resume=False, force=False)
    (first.folder / "work").touch()
    (other,) = facts.values()
    with pytest.raises(InputError, match="was begun with other engine"):
        Spool(output, other, pooled=False).begin(resume=True, force=False)


def test_finished_parts_are_found_again_by_the_same_run_alone(tmp_path):
    source = open_input(write_text(tmp_path), InputSettings())
    model, output = embedder(), tmp_path / "vectors.parquet"
    spool = Spool(output, ray_facts(model, source, VectorSettings()), pooled=False)
    spool.begin(resume=False, force=False)
    parts = PartFolder(spool.folder)
    parts.begin()
    part = next(shards_of(source, TOKENS)[0].parts())
    part["ids"] = list(range(len(part["words"])))
    PartWriter(model, "average", VectorSettings(), parts).write(part)
    torch.set_num_threads(torch.get_num_threads() + 1)
    try:
        spool = Spool(output, ray_facts(model, source, VectorSettings()), pooled=False)
        spool.begin(resume=True, force=False)
    finally:
        torch.set_num_threads(torch.get_num_threads() - 1)
    assert list(parts.begin()) == [PartKey(0, 0)]
    changed = VectorSettings(compression="zstd")
    with pytest.raises(InputError, match="was begun with other compression"):
        Spool(output, ray_facts(model, source, changed), pooled=False).begin(
            resume=True, force=False
        )


def test_what_is_kept_is_told_when_a_run_ends_early(tmp_path):
    folder = tmp_path / "out.parts"
    folder.mkdir()
    kept = resume_hint(folder, "1,234 sentences are")
    assert kept == f"1,234 sentences are in {folder}; to go on, run the same command with --resume"
    interrupted = engine.stopped(KeyboardInterrupt(), kept)
    assert isinstance(interrupted, StoppedError)
    assert str(interrupted) == f"stopped; {kept}"
    lost = engine.stopped(RuntimeError("trace\n  of calls\nno machine is left\n"), kept)
    assert str(lost) == f"Ray gave up (no machine is left); {kept}"
    folder.rmdir()
    assert resume_hint(folder).startswith("nothing was done yet")


class OneProcess:
    """Stands for Ray: everything is done here, one part after another."""

    def __init__(self, monkeypatch):
        self.exceptions = SimpleNamespace(RayError=RuntimeError)
        self.then = lambda: None  # called when all parts are done
        monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
        monkeypatch.setattr(engine, "import_ray", lambda: self)
        monkeypatch.setattr(engine, "connected", lambda *_: nullcontext())
        monkeypatch.setattr(engine, "data_settings", lambda *_, **__: nullcontext())
        monkeypatch.setattr(engine, "count_rows", lambda _, shards: [s.rows() for s in shards[:-1]])
        monkeypatch.setattr(engine, "results", self.results)

    def results(self, _, shards, model, worker):
        writer = PartWriter(*model, worker["settings"], PartFolder(worker["folder"]))
        for shard in shards:
            for message in shard.parts():
                yield writer.write(message) if "words" in message else message
        self.then()


@pytest.fixture
def one_process(monkeypatch):
    return OneProcess(monkeypatch)


def embed_by(files, output, **arguments):
    return engine.embed_with_ray(
        embedder(), open_input(files, InputSettings()), output, **arguments
    )


def test_folder_that_holds_the_input_is_not_replaced(tmp_path, one_process):
    folder = tmp_path / "in.parquet"
    folder.mkdir()
    files = write_text(folder)
    with pytest.raises(InputError, match=r"would replace the input .*text0\.txt"):
        embed_by(files, folder, force=True)
    assert len(list(folder.iterdir())) == 3


def test_folder_that_appears_or_text_that_changes_meanwhile_ends_a_run(tmp_path, one_process):
    files, output = write_text(tmp_path, files=1), tmp_path / "out.parquet"
    one_process.then = lambda: output.mkdir()
    with pytest.raises(InputError, match="has appeared since the run began"):
        embed_by(files, output)
    assert not list(output.iterdir())
    output.rmdir()
    one_process.then = lambda: Path(files[0]).write_text("another text")
    with pytest.raises(InputError, match=r"text0\.txt: changed while it was read"):
        embed_by(files, output, resume=True)
    assert not output.exists()
    assert list(tmp_path.glob("out.parquet.parts/vectors/part-*"))


def test_folder_around_the_user_is_refused_before_anything_is_computed(
    tmp_path, one_process, monkeypatch
):
    files, output = write_text(tmp_path, files=1), tmp_path / "out.parquet"
    output.mkdir()
    monkeypatch.chdir(output)
    monkeypatch.setattr(engine, "results", None)
    with pytest.raises(InputError, match="is around the current"):
        embed_by(files, output, force=True)
    assert output.exists()


def test_kill_after_the_last_step_costs_nothing(tmp_path, one_process, monkeypatch):
    files, output = write_text(tmp_path), tmp_path / "out.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(Spool, "remove", lambda self: None)
        embed_by(files, output)
    monkeypatch.setattr(engine, "results", None)
    assert (tmp_path / "out.parquet.parts").exists()
    assert embed_by(files, output, resume=True).already_finished
    assert not (tmp_path / "out.parquet.parts").exists()
    with open_vectors(output) as found:
        assert len(found) == 3 * 41


def test_ctrl_c_at_any_step_says_how_to_go_on(tmp_path, one_process, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    files = write_text(tmp_path)
    for number, (owner, step) in enumerate(
        [(PartFolder, "begin"), (PartCollector, "check_whole"), (PartFolder, "publish")]
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, interrupt)
            with pytest.raises(StoppedError):
                embed_by(files, tmp_path / f"{number}.parquet")


# With Ray itself: two machines, which are processes here.


@pytest.fixture
def cluster(monkeypatch):
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="ray is installed without ray[data]")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    machine = {"num_cpus": 2, "object_store_memory": 200_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**machine, "include_dashboard": False})
    second = cluster.add_node(**machine)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster, second
    ray.shutdown()
    cluster.shutdown()


def slow_embedder() -> Embedder:
    """Takes its time, so that both machines get some of the work."""

    class SlowEmbedder(Embedder):
        def embed_as(self, *arguments):
            time.sleep(0.3)
            return super().embed_as(*arguments)

    return SlowEmbedder(small_bilm(), tokenizer="whitespace")


def machines_of(parts: PartFolder) -> dict[str, int]:
    """How many parts each machine has written."""
    machines = [record["machine"] for record in parts.begin().values()]
    return {machine: machines.count(machine) for machine in machines}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own are not ours to mend
def test_run_that_is_cut_short_goes_on_with_what_is_missing(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
    files, settings = write_text(tmp_path, files=1, lines=200), VectorSettings(pool="mean")
    local = embed_files(
        embedder(), open_input(files, InputSettings()), tmp_path / "local.parquet", settings
    )
    output = tmp_path / "ray.parquet"
    parts = PartFolder(tmp_path / "ray.parquet.parts")

    def embed(**arguments):
        source = open_input(files, InputSettings())
        return engine.embed_with_ray(
            slow_embedder(), source, output, settings, quiet=True, **arguments
        )

    def interrupt(progress):
        if progress.words > 200:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError, match=r"sentences are in .*--resume"):
        embed(report=interrupt)
    before = {part: parts.path(part).stat().st_mtime_ns for part in parts.begin()}
    told = []
    summary = embed(resume=True, report=told.append)

    assert before
    assert told[0].words_here < told[0].words
    after = {part: (output / f"{part.name}.parquet").stat().st_mtime_ns for part in before}
    assert after == before
    assert (summary.sentences, summary.words) == (local.sentences, local.words)
    assert_same(output, tmp_path / "local.parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_lost_with_a_machine_that_is_killed_half_way(tmp_path, monkeypatch, cluster):
    cluster, second = cluster
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
    monkeypatch.setattr(shards_module, "BYTES_PER_SHARD", 1)
    files = write_text(tmp_path, files=3, lines=400)
    local = embed_files(embedder(), open_input(files, InputSettings()), tmp_path / "local.parquet")
    output = tmp_path / "ray.parquet"
    parts = PartFolder(tmp_path / "ray.parquet.parts")
    killed = []

    def kill(progress):
        if not killed and machines_of(parts).get(second.node_id, 0) >= 3:
            killed.append(progress.sentences)
            cluster.remove_node(second, allow_graceful=False)

    source = open_input(files, InputSettings())
    summary = engine.embed_with_ray(slow_embedder(), source, output, report=kill, quiet=True)

    assert killed
    assert killed[0] < local.sentences * 0.9
    assert (summary.sentences, summary.words) == (local.sentences, local.words)
    assert_same(output, tmp_path / "local.parquet")
    assert not parts.folder.exists()
