from __future__ import annotations

import json
import logging
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from closeness import assert_agree
from helpers import Heard, read_vectors
from small_models import small_bilm, small_embedder

from elmokit import Embedder
from elmokit.bulk import pipeline
from elmokit.bulk import ray as engine
from elmokit.bulk.inputs import open_input
from elmokit.bulk.parts import PartStore
from elmokit.bulk.pipeline import embed_files
from elmokit.bulk.ray import Worker
from elmokit.errors import ElmoError, InputError, StoppedError
from elmokit.io.text_files import TextSettings
from elmokit.jobs.run_folder import RunFolder
from elmokit.vectors.files import open_vectors
from elmokit.vectors.items import VectorSettings

parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet files need pyarrow")

TOKENS = 120


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


def assert_same(first, second) -> None:
    ours, theirs = read_vectors(first), read_vectors(second)
    assert [item.sentence for item in ours] == [item.sentence for item in theirs]
    assert [item.id for item in ours] == [item.id for item in theirs]
    # They are read as float32, whatever they were stored as.
    with open_vectors(first) as one, open_vectors(second) as other:
        assert one.description == other.description
    assert_agree([item.vectors for item in ours], [item.vectors for item in theirs])


class OneProcess:
    """Stands for Ray: everything is done here, by two workers, in any order."""

    def __init__(self, monkeypatch):
        self.exceptions = SimpleNamespace(RayError=RuntimeError)
        self.then = lambda: None  # called when all parts are done
        monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
        monkeypatch.setattr(engine, "import_ray", lambda: self)
        monkeypatch.setattr(engine, "connected", lambda *_: nullcontext())
        monkeypatch.setattr(engine, "results", self.results)

    def results(self, _, shards, job, bars):
        workers = [Worker(engine.on_cpu(job), job.settings, job.parts, "cpu") for _ in range(2)]
        rows = [{"message": json.dumps(each)} for shard in shards for each in shard.messages()]
        random.Random(1).shuffle(rows)
        for number, row in enumerate(rows):
            yield json.loads(workers[number % 2](row)["message"])
        self.then()


@pytest.fixture
def one_process(monkeypatch):
    return OneProcess(monkeypatch)


def embed_by(files, output, settings=None, *, inputs=None, **arguments):
    source = open_input(files, inputs or TextSettings())
    return engine.embed_with_ray(small_embedder(), source, output, settings, **arguments)


@pytest.mark.parametrize(
    "settings",
    [
        VectorSettings(),
        VectorSettings(layers="all", dtype="float16", compression="zstd"),
        VectorSettings(layers="1", pool="mean"),
    ],
)
@pytest.mark.parametrize("suffix", [".parquet", ".h5"])
def test_file_holds_what_the_local_engine_writes(
    tmp_path, monkeypatch, one_process, settings, suffix
):
    monkeypatch.setattr(engine, "BYTES_PER_SHARD", 1)
    settings = replace(settings, compression="gzip" if settings.compression else None)
    files, outputs = (
        write_text(tmp_path),
        [tmp_path / f"{each}{suffix}" for each in ("ray", "local")],
    )
    run = embed_by(files, outputs[0], settings)
    local = embed_files(small_embedder(), open_input(files, TextSettings()), outputs[1], settings)
    assert_same(*outputs)
    assert (run.sentences, run.words, run.blank) == (local.sentences, local.words, local.blank)
    assert {path.name for path in tmp_path.iterdir()} == {
        *(Path(file).name for file in files),
        *(output.name for output in outputs),
    }


def test_input_without_a_sentence_is_refused(tmp_path, one_process):
    (tmp_path / "blank.txt").write_text(" \n \n")
    files = [str(tmp_path / "blank.txt")]
    with pytest.raises(InputError, match="holds no sentence"):
        embed_by(files, tmp_path / "ray.parquet", inputs=TextSettings(split=True))


@pytest.mark.parametrize("resume", [False, True])
def test_ids_of_another_kind_in_another_shard_are_an_error(
    tmp_path, monkeypatch, one_process, resume
):
    monkeypatch.setattr(engine, "BYTES_PER_SHARD", 1)
    files = [str(tmp_path / f"{name}.jsonl") for name in ("missing", "numbers", "texts")]
    for file, keys in zip(files, (["null"], ["1", "null"], ['"k"', '"l"']), strict=True):
        Path(file).write_text("".join(f'{{"text": "a b", "key": {key}}}\n' for key in keys))
    inputs = TextSettings(text_column="text", keep="key")
    embed_by(files[:2], tmp_path / "one_kind.h5", inputs=inputs)
    if resume:  # what was stored is compared, too
        with monkeypatch.context() as patch:
            patch.setattr(engine, "check_kind_of_ids", lambda *_: None)
            patch.setattr(pipeline, "write_vectors", interrupt)
            with pytest.raises(StoppedError):
                embed_by(files, tmp_path / "out.h5", inputs=inputs)
    with pytest.raises(InputError, match=r"(texts|numbers)\.jsonl: an id is .*hold one kind"):
        embed_by(files, tmp_path / "out.h5", inputs=inputs, resume=resume)


def test_nothing_is_removed_where_no_cluster_answers(tmp_path, monkeypatch, one_process):
    files, output = write_text(tmp_path), tmp_path / "out.h5"
    monkeypatch.setattr(pipeline, "write_vectors", interrupt)
    with pytest.raises(StoppedError):
        embed_by(files, output)
    before = sorted(tmp_path.rglob("*"))

    def nobody(*_):
        raise InputError("no Ray cluster answers")

    monkeypatch.setattr(engine, "connected", nobody)
    with pytest.raises(InputError, match="no Ray cluster answers"):
        embed_by(files, output, force=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("quiet", "level"), [(True, logging.ERROR), (False, logging.WARNING)])
def test_level_of_ray_data_is_restored(tmp_path, one_process, quiet, level):
    log, seen = logging.getLogger("ray.data"), []
    before = log.level
    one_process.then = lambda: seen.append(log.level)
    embed_by(write_text(tmp_path), tmp_path / "out.h5", quiet=quiet)
    assert (seen, log.level) == ([level], before)


def test_what_cannot_be_spread_over_machines_is_refused(tmp_path):
    source = open_input(write_text(tmp_path), TextSettings())
    with pytest.raises(InputError, match=r"'carry'.*cannot be spread over machines"):
        engine.check_spreadable(small_embedder(state="carry"), source)
    with pytest.raises(InputError, match="stream cannot be read by other machines"):
        engine.check_spreadable(small_embedder(), open_input(["-"], TextSettings()))


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_unfinished_run_of_one_engine_is_not_taken_for_one_of_the_other(
    tmp_path, one_process, monkeypatch
):
    files, output = write_text(tmp_path), tmp_path / "vectors.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "write_vectors", interrupt)
        with pytest.raises(StoppedError, match=r"vectors\.parquet\.parts; .*--resume"):
            embed_by(files, output)
    source = open_input(files, TextSettings())
    with pytest.raises(InputError, match="engine was ray, is local"):
        embed_files(small_embedder(), source, output, resume=True)
    monkeypatch.setattr(Worker, "store", None)
    summary = embed_by(files, output, VectorSettings(compression="zstd"), resume=True)
    assert summary.sentences == 3 * 41


def test_what_is_done_is_told_when_ray_gives_up(tmp_path, one_process):
    def give_up():
        raise RuntimeError("trace\n  of calls\nno machine is left\n")

    one_process.then = give_up
    with pytest.raises(ElmoError, match=r"Ray gave up \(no machine is left\); .*--resume$"):
        embed_by(write_text(tmp_path), tmp_path / "out.parquet")


def test_output_that_appears_or_text_that_changes_meanwhile_ends_a_run(tmp_path, one_process):
    files, output = write_text(tmp_path, files=1), tmp_path / "out.parquet"
    one_process.then = output.touch
    with pytest.raises(InputError, match="has appeared since the run began"):
        embed_by(files, output)
    output.unlink()
    one_process.then = lambda: Path(files[0]).write_text("another text")
    with pytest.raises(InputError, match=r"text0\.txt: changed while it was read"):
        embed_by(files, output, resume=True)
    assert not output.exists()
    assert list(tmp_path.glob("out.parquet.parts/part-*"))


def test_ctrl_c_at_any_step_says_how_to_go_on(tmp_path, one_process, monkeypatch):
    files = write_text(tmp_path)
    for number, (owner, step) in enumerate(
        [(RunFolder, "begin"), (engine, "compute_missing"), (RunFolder, "publish")]
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own are not ours to fix
def test_run_that_is_cut_short_goes_on_with_what_is_missing(tmp_path, monkeypatch, cluster):
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
    files, settings = write_text(tmp_path, files=1, lines=200), VectorSettings(pool="mean")
    local = embed_files(
        small_embedder(), open_input(files, TextSettings()), tmp_path / "local.parquet", settings
    )
    output = tmp_path / "ray.parquet"
    parts = PartStore(tmp_path / "ray.parquet.parts", pooled=False)

    def embed(**arguments):
        source = open_input(files, TextSettings())
        return engine.embed_with_ray(
            slow_embedder(), source, output, settings, quiet=True, **arguments
        )

    def interrupt(heard):
        if heard.measured[-1]["words"] > 200:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError, match=r"is in .*--resume"):
        embed(observer=Heard(interrupt))
    before = parts.names()
    told = Heard()
    summary = embed(resume=True, observer=told)

    assert before
    assert told.stages["embedding"][0][0] > 0
    assert (summary.sentences, summary.words) == (local.sentences, local.words)
    assert_same(output, tmp_path / "local.parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_nothing_is_lost_with_a_machine_that_is_killed_half_way(tmp_path, monkeypatch, cluster):
    cluster, second = cluster
    monkeypatch.setattr(pipeline, "TOKENS_PER_PART", TOKENS)
    monkeypatch.setattr(engine, "BYTES_PER_SHARD", 1)
    files = write_text(tmp_path, files=3, lines=400)
    local = embed_files(
        small_embedder(), open_input(files, TextSettings()), tmp_path / "local.parquet"
    )
    output = tmp_path / "ray.parquet"
    parts = PartStore(tmp_path / "ray.parquet.parts", pooled=False)
    killed = []

    def kill(heard):
        if not killed and len(parts.names()) > 20:
            killed.append(heard.measured[-1]["sentences"])
            cluster.remove_node(second, allow_graceful=False)

    source = open_input(files, TextSettings())
    summary = engine.embed_with_ray(
        slow_embedder(), source, output, observer=Heard(kill), quiet=True
    )

    assert killed
    assert killed[0] < local.sentences * 0.9
    assert (summary.sentences, summary.words) == (local.sentences, local.words)
    assert_same(output, tmp_path / "local.parquet")
    assert not parts.folder.exists()
