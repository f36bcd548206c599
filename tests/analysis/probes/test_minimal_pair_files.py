from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from analysis.probes.small_texts import minimal_pair, write

from elmokit.analysis.probes.files import MinimalPair, Paradigm, read_minimal_pairs
from elmokit.errors import ElmoWarning, FormatError, InputError

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "blimp"
ISLAND = Paradigm("island_1", "islands", "syntax")


def test_one_file_of_all_paradigms_is_read_by_paradigm(tmp_path):
    lines = [
        minimal_pair("A cat sat.", "A cat sat cat.", pair_id=0),
        minimal_pair("She saw herself.", "She saw himself.", "anaphor_1", "anaphors", "morphology"),
        "\n",
        minimal_pair("The dog ran.", "The dog ran dog."),
    ]
    assert read_minimal_pairs([write(tmp_path / "a.jsonl.gz", "".join(lines))]) == {
        ISLAND: [
            MinimalPair("A cat sat.", "A cat sat cat."),
            MinimalPair("The dog ran.", "The dog ran dog."),
        ],
        Paradigm("anaphor_1", "anaphors", "morphology"): [
            MinimalPair("She saw herself.", "She saw himself.")
        ],
    }


def test_a_folder_with_a_file_for_each_paradigm_is_the_same_as_one_file(tmp_path):
    lines = [minimal_pair("A a.", f"B {name}.", name, pairID="0") for name in ("x_1", "x_2", "y")]
    for number, line in enumerate(lines):
        write(tmp_path / "data" / f"{number}.jsonl", line)
    one = write(tmp_path / "all.jsonl", "".join(lines))
    assert read_minimal_pairs([tmp_path / "data"]) == read_minimal_pairs([one])


def test_names_are_those_of_the_published_summary(tmp_path):
    lines = [minimal_pair("A.", "B.", "s", "s-selection", "syntax/semantics")]
    (paradigm,) = read_minimal_pairs([write(tmp_path / "a.jsonl", "".join(lines))])
    assert paradigm == Paradigm("s", "argument_structure", "syntax_semantics")


def test_other_json_lines_are_left_out_of_a_folder_but_not_if_named(tmp_path):
    write(tmp_path / "pairs.jsonl", minimal_pair("A.", "B."))
    summary = write(tmp_path / "summary.jsonl", '{"UID": "island_1", "lstm": 0.5}\n')
    with pytest.warns(ElmoWarning, match=r"summary\.jsonl: holds no minimal pairs"):
        assert read_minimal_pairs([str(tmp_path)]) == {ISLAND: [MinimalPair("A.", "B.")]}
    with pytest.raises(FormatError, match=r"summary\.jsonl, line 1: has no 'sentence_good'"):
        read_minimal_pairs([str(summary)])


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (minimal_pair("A.", "B.").replace("UID", "uid"), "has no 'UID'"),
        (minimal_pair("A.", " "), "holds no text in 'sentence_bad'"),
        (minimal_pair("A.", "B.", field=3), "holds no text in 'field'"),
        ("The cat sat.\n", "is not JSON"),
        ("[1]\n", "holds a list"),
    ],
)
def test_a_line_that_is_no_pair_is_told_with_its_place(tmp_path, line, what):
    path = write(tmp_path / "a.jsonl", minimal_pair("A.", "B.") + line)
    with pytest.raises(FormatError) as told:
        read_minimal_pairs([path])
    assert str(told.value).startswith(f"{path}, line 2: {what}")
    assert "\n" not in str(told.value)


def test_a_file_without_pairs_is_told(tmp_path):
    with pytest.raises(InputError, match=r"a\.jsonl: holds no minimal pair"):
        read_minimal_pairs([write(tmp_path / "a.jsonl", "\n")])


def test_blimp_as_published():
    if not SHARED.is_dir():
        pytest.skip("BLiMP is in ../shared/data, which is not here")
    pairs = read_minimal_pairs([SHARED / "blimp.jsonl.gz"])
    assert (len(pairs), {len(of_it) for of_it in pairs.values()}) == (67, {1000})
    phenomena = Counter(paradigm.phenomenon for paradigm in pairs)
    assert (len(phenomena), phenomena["argument_structure"]) == (12, 9)
    assert len({paradigm.field for paradigm in pairs}) == 4
    assert sum(good == bad for of_it in pairs.values() for good, bad in of_it) == 7
