from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers import SLOWLY, Heard, error_of, files_in, write
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import DiskError, FormatError, InputError, StoppedError
from elmokit.io.text_files import TextSettings
from elmokit.pretraining import corpus as preparation
from elmokit.pretraining.prepared import PreparedCorpus
from elmokit.text.tokenizer import read_sentences

TEXT = "the cat sat .\nthe dog sat on the cat .\n\nEs ist groß .\n고양이 가 앉았다 .\n"

quick = settings(max_examples=25, deadline=None, derandomize=True, database=None)
any_word = st.sampled_from(
    ["a", "b", "cat", "<S>", "<UNK>", "é", "🙂", "\x00", "\ufeff"]
) | st.text(st.characters(codec="utf-8", exclude_categories=["Z", "Cc"]), min_size=1, max_size=9)
any_file = st.lists(st.lists(any_word, max_size=6), max_size=8)


def write_files(folder: Path, *texts: str) -> list[Path]:
    return [write(folder / f"{number}.txt", text) for number, text in enumerate(texts)]


def prepare(files: Sequence[Path], cache: Path, **options) -> PreparedCorpus:
    """Text that is tokenized, unless options say otherwise."""
    names = ("tokenizer", "one_sentence_per_line", "errors")
    chosen = {name: options.pop(name) for name in names if name in options}
    text = TextSettings.of_corpus(**{"tokenizer": "whitespace"} | chosen)
    return preparation.prepare_corpus(files, text, cache=cache, **{"processes": 1} | options)


def sentences_in(corpus: PreparedCorpus) -> list[list[str]]:
    """What the tokens spell, read the plain way."""
    tokens = corpus.tokens.tolist()
    assert tokens[0] == tokens[-1] == 0
    sentences: list[list[str]] = [[]]
    for token in tokens[1:-1]:
        if token:
            sentences[-1].append(corpus.word(token))
        else:
            sentences.append([])
    return sentences


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNK_BYTES", 16)


def test_tokens_have_a_border_before_between_and_after_sentences(tmp_path):
    corpus = prepare(write_files(tmp_path, "b a\na\n"), tmp_path / "cache")
    assert corpus.tokens.tolist() == [0, 2, 1, 0, 1, 0]
    assert corpus.tokens.dtype == np.int32
    assert (corpus.sentences, corpus.words_in_all, corpus.types) == (2, 3, 2)
    assert list(corpus.words()) == ["a", "b"]
    assert corpus.counts.tolist() == [2, 2, 1]


@quick
@given(contents=st.lists(any_file, min_size=1, max_size=3), chunk_bytes=st.integers(1, 60))
def test_prepared_corpus_is_the_sentences_of_the_files_in_order(
    tmp_path_factory, contents, chunk_bytes
):
    folder = tmp_path_factory.mktemp("corpus")
    texts = ["\n".join(" ".join(words) for words in file) for file in contents]
    files = write_files(folder, *texts)
    expected = list(read_sentences(files, TextSettings()))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(preparation, "CHUNK_BYTES", chunk_bytes)
        monkeypatch.setattr(preparation, "ENTRIES_AT_ONCE", 3)
        monkeypatch.setattr(preparation, "LEAST_BLOCK_BYTES", 1)
        monkeypatch.setattr(preparation, "BYTES_AT_ONCE", 1)
        if not expected:
            assert "no words" in error_of(prepare, files, folder / "cache", kind=InputError)
            return
        corpus = prepare(files, folder / "cache")
    assert sentences_in(corpus) == expected
    words = list(corpus.words())
    assert [word.encode() for word in words] == sorted({w.encode() for s in expected for w in s})
    assert corpus.counts[1:].tolist() == [sum(s.count(word) for s in expected) for word in words]
    assert corpus.counts[0] == corpus.sentences == len(expected)
    sizes = [len(list(read_sentences([file], TextSettings()))) for file in files]
    borders = np.flatnonzero(corpus.tokens == 0)
    assert corpus.shards.tolist() == borders[np.cumsum([0, *sizes])].tolist()


def test_result_is_the_same_for_any_chunks_and_processes(tmp_path, monkeypatch):
    files = write_files(tmp_path, TEXT * 3, "", TEXT + "another word .\n", TEXT[:30])
    whole = prepare(files, tmp_path / "whole", processes=1)
    monkeypatch.setattr(preparation, "CHUNK_BYTES", 40)
    cut = prepare(files, tmp_path / "cut", processes=1)
    shared = prepare(files, tmp_path / "shared", processes=2)
    assert whole.key == cut.key == shared.key
    assert files_in(whole.folder) == files_in(cut.folder) == files_in(shared.folder)
    assert sentences_in(shared) == list(read_sentences(files, TextSettings()))


def test_default_tokenizer_splits_each_line(tmp_path):
    files = write_files(tmp_path, "A dog. A cat\nsat.\n")
    corpus = prepare(files, tmp_path / "cache", tokenizer="default")
    assert sentences_in(corpus) == [["A", "dog", "."], ["A", "cat"], ["sat", "."]]
    corpus = prepare(files, tmp_path / "cache", tokenizer="default", one_sentence_per_line=True)
    assert sentences_in(corpus) == [["A", "dog", ".", "A", "cat"], ["sat", "."]]


def test_same_files_are_prepared_once(tmp_path, monkeypatch):
    files = write_files(tmp_path, TEXT)
    first = prepare(files, tmp_path / "cache")
    monkeypatch.setattr(preparation, "read_chunks", None)
    again = prepare(files, tmp_path / "cache")
    assert again.folder == first.folder
    moved = shutil.copy(files[0], tmp_path / "renamed.txt")
    assert prepare([Path(moved)], tmp_path / "cache").folder == first.folder


def test_other_text_settings_or_compression_are_another_corpus(tmp_path):
    files = write_files(tmp_path, "a. b\n", "c\n")
    keys = {
        prepare(files, tmp_path / "cache", **options).key
        for options in (
            {},
            {"tokenizer": "default"},
            {"tokenizer": "default", "one_sentence_per_line": True},
            {"errors": "replace"},
        )
    }
    keys.add(prepare(files[::-1], tmp_path / "cache").key)
    keys.add(prepare(files[:1], tmp_path / "cache").key)
    files[0].write_text("a. c\n")
    keys.add(prepare(files, tmp_path / "cache").key)
    packed = tmp_path / "packed.txt.gz"
    packed.write_bytes(gzip.compress(b"a. b\n"))
    keys.add(prepare([packed], tmp_path / "cache").key)
    renamed = packed.rename(tmp_path / "packed.text")
    keys.add(prepare([renamed], tmp_path / "cache", errors="replace").key)
    assert len(keys) == 9


def test_nothing_but_the_corpus_stays_in_the_cache(tmp_path):
    corpus = prepare(write_files(tmp_path, TEXT), tmp_path / "cache")
    names = {path.name for path in (tmp_path / "cache").iterdir()}
    assert names <= {corpus.key, f"{corpus.key}.lock", "hashes.json"}


@pytest.mark.usefixtures("small_chunks")
def test_preparation_goes_on_after_what_a_killed_one_has_done(tmp_path, monkeypatch):
    files = write_files(tmp_path, TEXT * 2, TEXT)
    expected = files_in(prepare(files, tmp_path / "other cache").folder)
    made: list[str] = []
    write_part = preparation.write_part

    def die_at_the_fifth(sentences, path):
        if len(made) == 5:
            raise KeyboardInterrupt
        write_part(sentences, path)
        made.append(path.name)

    monkeypatch.setattr(preparation, "write_part", die_at_the_fifth)
    with pytest.raises(StoppedError, match=r"parts-16; to resume, run the same command$"):
        prepare(files, tmp_path / "cache")
    before = made.copy()
    made += [""]  # the next one does not die
    corpus = prepare(files, tmp_path / "cache")
    after = made[6:]
    assert len(before) == 5
    assert len(after) > 5
    assert not set(before) & set(after)
    assert files_in(corpus.folder) == expected


@pytest.mark.usefixtures("small_chunks")
def test_preparation_cut_off_in_merging_keeps_its_parts(tmp_path, monkeypatch):
    files = write_files(tmp_path, TEXT)
    merge_parts = preparation.merge_parts

    def die(*arguments):
        merge_parts(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(preparation, "merge_parts", die)
    with pytest.raises(StoppedError, match=r"parts-16; to resume, run the same command$"):
        prepare(files, tmp_path / "cache")
    monkeypatch.setattr(preparation, "merge_parts", merge_parts)
    monkeypatch.setattr(preparation, "write_part", None)
    assert sentences_in(prepare(files, tmp_path / "cache"))[0] == ["the", "cat", "sat", "."]


def test_text_without_words_is_refused_and_leaves_no_corpus(tmp_path):
    with pytest.raises(InputError, match=r"0\.txt and 1 more: there are no words"):
        prepare(write_files(tmp_path, "", " \n\n"), tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix == ""]


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.usefixtures("small_chunks")
def test_text_that_is_not_utf_8_is_named_from_any_process(tmp_path, processes):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good line of text\n" * 5 + b"caf\xe9\n")
    settings = {"processes": processes, "after": f"{path}, line 6: is not UTF-8"}
    said = error_of(prepare, [path], tmp_path / "cache", kind=FormatError, **settings)
    assert "--set corpus.errors=replace" in said
    corpus = prepare([path], tmp_path / "cache", errors="replace")
    assert sentences_in(corpus)[-1] == ["caf\ufffd"]


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DiskError, match=r"nowhere\.txt: cannot be read"):
        prepare([tmp_path / "nowhere.txt"], tmp_path / "cache")


@pytest.mark.usefixtures("small_chunks")
def test_progress_has_three_stages_each_up_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "ENTRIES_AT_ONCE", 3)
    files = write_files(tmp_path, TEXT, TEXT)
    total = sum(file.stat().st_size for file in files)
    heard = Heard()
    prepare(files, tmp_path / "cache", observer=heard)
    looked_at, prepared, merged = heard.stages.values()
    assert (looked_at[0], prepared[0]) == ((0, total), (0, total))
    assert looked_at[-1][0] == prepared[-1][0] == total
    assert merged[-1][0] == merged[-1][1]
    for stage in heard.stages.values():
        assert [done for done, _ in stage] == sorted(done for done, _ in stage)


def test_several_processes_prepare_one_corpus_together(tmp_path):
    files = write_files(tmp_path, TEXT * 50)
    program = (
        "import sys; from pathlib import Path\n"
        "from elmokit.io.text_files import TextSettings\n"
        "from elmokit.pretraining import corpus as preparation\n"
        "write_part = preparation.write_part\n"
        "def noted(sentences, path):\n"
        "    print('made', flush=True)\n"
        "    write_part(sentences, path)\n"
        "preparation.write_part = noted\n"
        "preparation.prepare_corpus([Path(sys.argv[1])], TextSettings(),\n"
        "                           cache=Path(sys.argv[2]), processes=1)\n"
    )
    command = [sys.executable, "-c", program, str(files[0]), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "".join(outputs) == "made\n"


def test_script_without_a_guard_is_told_so(tmp_path):
    (file,) = write_files(tmp_path, TEXT * 3)
    lines = [
        "from pathlib import Path",
        "from elmokit.io.text_files import TextSettings",
        "from elmokit.pretraining import corpus",
        "corpus.CHUNK_BYTES = 40",
        f"corpus.prepare_corpus([Path({str(file)!r})], TextSettings(), processes=2)",
    ]
    command = [sys.executable, str(write(tmp_path / "script.py", lines))]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SLOWLY)
    assert ended.returncode == 1
    assert 'call this under if __name__ == "__main__"' in ended.stderr.splitlines()[-1]


def test_unchanged_files_are_not_hashed_again(tmp_path, monkeypatch):
    files = write_files(tmp_path, "one\n", "two\n")
    long_ago = time.time_ns() - 10**10
    os.utime(files[0], ns=(long_ago, long_ago))
    memory = write(tmp_path / "hashes.json", "not JSON")  # made again
    before = preparation.sha256_of_files(files, memory, lambda done, total: None)
    read = []
    really = preparation.sha256_of
    monkeypatch.setattr(preparation, "sha256_of", lambda path: read.append(path) or really(path))
    assert preparation.sha256_of_files(files, memory, lambda done, total: None) == before
    # The second file is so new that it could change again at the same instant.
    assert read == files[1:]
    files[0].write_text("ONE\n")
    assert preparation.sha256_of_files(files, memory, lambda done, total: None)[0] != before[0]


def test_korean_is_split_alike_by_any_number_of_processes(tmp_path, small_chunks, monkeypatch):
    pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")
    files = write_files(
        tmp_path, "나는 학교에 갔다. 좋다ㅋㅋ\n\n배가 고파서 왔다\n" * 3, "그는 갔다.\n"
    )
    one = prepare(files, tmp_path / "one", tokenizer="kiwi")
    two = prepare(files, tmp_path / "two", tokenizer="kiwi", processes=2)
    assert sentences_in(one)[:2] == [
        ["나", "는", "학교", "에", "가", "었", "다", "."],
        ["좋", "다", "ㅋㅋ"],
    ]
    assert sentences_in(two) == sentences_in(one)
    monkeypatch.setattr(preparation, "versions", lambda: {"kiwipiepy": "0.0"})
    assert prepare(files, tmp_path / "one", tokenizer="kiwi").key != one.key
