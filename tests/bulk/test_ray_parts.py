"""What Ray's readers and workers tell, and what is made of it."""

from __future__ import annotations

import json
import socket
from types import SimpleNamespace

import pytest
from closeness import assert_agree
from helpers import Heard
from small_models import small_embedder

from elmokit import errors
from elmokit.bulk import ray as engine
from elmokit.bulk.compute import Computer, Tally
from elmokit.bulk.inputs import open_input
from elmokit.bulk.parts import Part, PartStore, name_of_part
from elmokit.bulk.ray import Worker, connected, shards_of, with_failure, worker_count
from elmokit.errors import ElmoError, FormatError, InputError
from elmokit.io.text_files import TextSettings
from elmokit.jobs.progress import Observer
from elmokit.vectors.items import VectorSettings

LINES = [f"sentence number {number}" for number in range(9)]  # three words, two markers each
TWO_SENTENCES = 10  # tokens
SENTENCES = [["The", "river", "bank"], [], ["A", "bank"], ["A", "bank"]]


@pytest.fixture
def parts(tmp_path):
    (tmp_path / "out.parts").mkdir()
    return PartStore(tmp_path / "out.parts", pooled=False)


def write(folder, **files):
    for name, contents in files.items():
        (folder / f"{name}.txt").write_text(contents, encoding="utf-8")
    return [str(folder / f"{name}.txt") for name in files]


def shard_of(parts, lines=LINES, **settings):
    files = write(parts.folder.parent, text="\n".join(lines))
    (shard,) = shards_of(open_input(files, TextSettings(**settings)), TWO_SENTENCES, parts)
    return shard


def part(number=0, ids=(0, 1, 2, 3)):
    return Part(0, number, SENTENCES, list(ids), [[0, 4], 1], 31 * (number + 1), 31)


def worker(parts) -> Worker:
    return Worker((small_embedder(), "average"), VectorSettings(), parts, "cpu")


def stored(parts, message):
    """Store a part as a worker does."""
    return worker(parts).store(Part(**json.loads(json.dumps(message))))


# Shards


def test_small_files_share_a_shard_and_no_file_is_divided(tmp_path, parts, monkeypatch):
    monkeypatch.setattr(engine, "BYTES_PER_SHARD", 10)
    files = write(tmp_path, a="1234", b="1234", c="1234", d="1" * 50, e="1")
    found = shards_of(open_input(files, TextSettings()), 1, parts)
    assert [list(shard.files) for shard in found] == [files[:3], files[3:4], files[4:]]
    assert [shard.number for shard in found] == [0, 1, 2]


def test_files_have_full_names_that_hold_in_any_folder(tmp_path, parts, monkeypatch):
    write(tmp_path, text="a b")
    monkeypatch.chdir(tmp_path)
    (shard,) = shards_of(open_input(["text.txt"], TextSettings()), 1, parts)
    monkeypatch.chdir("/")
    assert shard.files == (str(tmp_path / "text.txt"),)
    assert len(list(shard.messages())) == 2


def test_shard_gives_its_parts_and_then_their_number(tmp_path, parts):
    *found, end = shard_of(parts).messages()
    assert [message["number"] for message in found] == [0, 1, 2, 3, 4]
    words = [sentence for message in found for sentence in message["sentences"]]
    assert [" ".join(sentence) for sentence in words] == LINES
    assert sum(message["bytes"] for message in found) == (tmp_path / "text.txt").stat().st_size
    assert end == {"shard": 0, "parts": 5}


@pytest.mark.parametrize("missing", [{0}, {1, 3}, {0, 1, 2, 3, 4}, set()])
def test_only_parts_that_are_not_done_are_given_and_they_are_the_same(parts, missing):
    *found, end = shard_of(parts).messages()
    for message in found:
        if message["number"] not in missing:
            stored(parts, message)
    rest = [message for message in found if message["number"] in missing]
    assert list(shard_of(parts).messages()) == [*rest, end]


def test_shard_that_is_read_again_gives_the_same_whatever_was_stored_since(parts):
    shard = shard_of(parts)
    first = list(shard.messages())
    stored(parts, first[0])
    assert list(shard.messages()) == first


def test_shard_without_sentences_has_no_parts(parts):
    shard = shard_of(parts, [" ", " "], split=True)
    assert list(shard.messages()) == [{"shard": 0, "parts": 0}]


def test_file_that_a_machine_does_not_have_is_named(tmp_path, parts):
    shard = shard_of(parts)
    (tmp_path / "text.txt").unlink()
    with pytest.raises(InputError, match=r"text\.txt: is not there on .*all machines share"):
        next(shard.messages())


# Workers


def test_part_holds_what_its_sentences_embed_to(parts):
    worker(parts).store(part(ids="abcd"))
    found = list(parts.items())
    assert [item.words for item in found] == SENTENCES
    assert [item.id for item in found] == ["a", "b", "c", "d"]
    assert_agree([item.vectors for item in found], small_embedder().embed(SENTENCES))


def test_record_says_what_was_counted(parts):
    record = worker(parts).store(part())
    assert record["totals"] == {"sentences": 4, "words": 7, "blank": 1, "duplicates": 1}
    assert record == parts.object(name_of_part(0, 0)) | {"end": part().end}


def test_part_that_is_there_is_not_computed_again(parts, monkeypatch):
    first = worker(parts).store(part())
    second = worker(parts)
    monkeypatch.setattr(second.computer, "compute", None)
    assert second.store(part())["totals"] == first["totals"]


def test_machine_without_the_folder_does_not_make_one_of_its_own(parts):
    parts.folder.rmdir()
    with pytest.raises(InputError, match=r"parts: is not there on .*all machines share"):
        worker(parts).store(part())
    assert not parts.folder.exists()


def test_error_on_another_machine_has_its_place(tmp_path, parts, monkeypatch):
    shard = shard_of(parts, ["fine"])
    (tmp_path / "text.txt").write_bytes(b"fine\n" * 60 + b"\xff\n")
    *_, last = with_failure(shard.messages())
    with pytest.raises(FormatError, match=r"text\.txt, line 61: is not UTF-8"):
        collect(parts, monkeypatch, last)


# What is told


def collect(parts, monkeypatch, *messages, observer=None, done=()):
    """Take messages as those of all workers."""
    files = write(parts.folder.parent, text="\n".join(LINES))
    source, embedder = open_input(files, TextSettings()), small_embedder()
    job = SimpleNamespace(parts=parts, source=source, computer=Computer(embedder))
    monkeypatch.setattr(engine, "results", lambda *_: (message for message in messages))
    engine.compute_missing(None, job, Tally({}, 0, observer or Observer()), False, done)


def test_part_or_shard_that_did_not_arrive_is_named(parts, monkeypatch):
    record = worker(parts).store(part())
    with pytest.raises(ElmoError, match=r"part-00000-00000001 did not arrive.*--resume"):
        collect(parts, monkeypatch, record, {"shard": 0, "parts": 2})
    with pytest.raises(ElmoError, match="did not arrive"):
        collect(parts, monkeypatch, record)
    collect(parts, monkeypatch, record, {"shard": 0, "parts": 1})


def test_progress_counts_every_part(parts, monkeypatch):
    heard = Heard()
    records = [worker(parts).store(part(number)) for number in (0, 1)]
    with heard.stage("embedding", "byte", 62):
        collect(parts, monkeypatch, *records, {"shard": 0, "parts": 2}, observer=heard)
    assert [(each["sentences"], each["words"]) for each in heard.measured] == [(4, 7), (8, 14)]
    assert heard.stages["embedding"] == [(0, 62), (31, None), (62, None)]


def test_part_that_only_another_machine_sees_is_named(parts, monkeypatch):
    monkeypatch.setattr(engine, "SECONDS_FOR_STORAGE", -1)
    with pytest.raises(InputError, match=r"part-00000-00000003: is not there on"):
        collect(parts, monkeypatch, {"shard": 0, "number": 3})


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.ElmoError)
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("derived", [False, True])
def test_every_kind_of_error_is_raised_where_the_user_is(parts, monkeypatch, kind, derived):
    raised = type("OfAnotherModuleError", (kind,), {}) if derived else kind

    def fail(*_):
        raise raised("out.parquet: cannot be written; free some space")

    failing = worker(parts)
    monkeypatch.setattr(failing, "store", fail)
    answer = failing({"message": json.dumps(part()._asdict())})
    with pytest.raises(kind, match="free some space") as error:
        collect(parts, monkeypatch, json.loads(answer["message"]))
    assert type(error.value) is kind
    assert failing({"message": '{"parts": 3}'}) == {"message": '{"parts": 3}'}


# The cluster


def test_address_where_nobody_listens_is_refused_at_once(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = SimpleNamespace(is_initialized=lambda: False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"{address}: no Ray cluster answers.*ray status"),
            connected(ray, address, quiet=True),
        ):
            pass


def test_cluster_without_what_workers_need_is_refused():
    ray = SimpleNamespace(cluster_resources=lambda: {"CPU": 3.0})
    assert worker_count(ray, "CPU") == 3
    with pytest.raises(InputError, match="has no GPU"):
        worker_count(ray, "GPU")
