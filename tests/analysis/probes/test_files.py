from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from analysis.probes.small_texts import INDEX, SEMCOR, TEST_DATA, TEST_KEYS, conllu, minimal_pair
from helpers import error_of, write

from elmokit.analysis.probes.files import (
    FIVE,
    MinimalPair,
    Paradigm,
    SenseOccurrence,
    SenseSentence,
    TaggedWords,
    find_sense_tests,
    read_minimal_pairs,
    read_semcor,
    read_sense_index,
    read_sense_test,
    read_tagged,
)
from elmokit.errors import ElmoWarning, FormatError, InputError

BLIMP = Path(__file__).resolve().parents[4] / "shared" / "data" / "blimp"
ISLAND = Paradigm("island_1", "islands", "syntax")


def sense_test(folder: Path, data: str = TEST_DATA, keys: str = TEST_KEYS) -> tuple[Path, Path]:
    return write(folder / "a.data.xml", data), write(folder / "a.gold.key.txt.gz", keys)


def test_semcor_units_are_split_and_names_have_no_sense(tmp_path):
    both = ("bank%1:17:01::", "bank%1:14:00::")
    assert read_semcor([write(tmp_path / "a.tsv.gz", SEMCOR)]) == [
        SenseSentence(
            ("Mary", "Ann", "took", "place", '"', "banks", '"'),
            (
                SenseOccurrence(2, 4, "take_place%2", ("take_place%2:30:00::",)),
                SenseOccurrence(5, 6, "bank%1", both),
            ),
        ),
        SenseSentence(("#", "odd"), (SenseOccurrence(1, 2, "odd%3", ("odd%5:00:00:strange:00",)),)),
    ]


def test_of_each_file_of_semcor_the_first_sentences_can_be_taken(tmp_path):
    files = [write(tmp_path / name, SEMCOR) for name in ("a.tsv", "b.tsv")]
    assert [len(one.words) for one in read_semcor(files, 1)] == [7, 7]


@pytest.mark.parametrize(
    "bad", ["odd\tJJ\todd", "odd\tJJ\todd\tstrange", "odd\tJJ\todd\todd%9:00:00::"]
)
def test_a_bad_line_of_semcor_is_named(tmp_path, bad):
    contents = SEMCOR.replace("odd\tJJ\todd\todd%5:00:00:strange:00", bad)
    path = write(tmp_path / "a.tsv", contents)
    error_of(read_semcor, [path], kind=FormatError, after=f"{path}, line 10: ")


def test_semcor_without_a_sense_is_an_error(tmp_path):
    path = write(tmp_path / "a.tsv", "The\tDT\t-\t-\n")
    error_of(read_semcor, [path], kind=InputError, after=f"{path}: no word has a sense")


def test_a_sense_test_has_its_answers_at_their_places(tmp_path):
    assert read_sense_test(*sense_test(tmp_path)) == [
        SenseSentence(
            ("The", "banks", "belong", "to", "(", "odd"),
            (
                SenseOccurrence(1, 2, "bank%1", ("bank%1:14:00::",)),
                SenseOccurrence(
                    2, 4, "belong_to%2", ("belong_to%2:42:00::", "belong_to%2:42:02::")
                ),
                SenseOccurrence(5, 6, "odd%3", ("odd%3:00:00::",)),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("</sentence>", "", "a.data.xml, line 8: "),
        ('encoding="UTF-8"', 'encoding="klingon"', "a.data.xml, line 1: "),
        ('pos="VERB"', 'pos="PRON"', "a.data.xml: instance 'd.s.1' "),
        (">banks<", "> <", "a.data.xml: instance 'd.s.0' "),
        ('id="d.s.1"', 'id="d.s.9"', "a.data.xml: instance 'd.s.1' is not asked"),
        ("d.s.2 odd%3:00:00::\n", "", "a.data.xml: instance 'd.s.2' "),
        (TEST_KEYS, "d.s.0\n", "a.gold.key.txt.gz, line 1: "),
        (TEST_KEYS, "\nd.s.0 x\n", "a.gold.key.txt.gz, line 2: "),
    ],
)
def test_a_bad_test_set_is_told_with_its_place(tmp_path, old, new, place):
    assert (old in TEST_DATA) != (old in TEST_KEYS)
    files = sense_test(tmp_path, TEST_DATA.replace(old, new), TEST_KEYS.replace(old, new))
    error_of(read_sense_test, *files, kind=FormatError, after=tmp_path / place)


def test_all_is_passed_over_where_the_five_sets_are_there(tmp_path):
    for name in (*reversed(FIVE), "ALL", "other"):
        write(tmp_path / f"{name}.data.xml.gz", "")
        write(tmp_path / f"{name}.gold.key.txt", "")
    assert list(find_sense_tests(tmp_path)) == [*FIVE, "other"]
    (tmp_path / "senseval3.data.xml.gz").unlink()
    assert list(find_sense_tests(tmp_path)) == [*(n for n in FIVE if n != FIVE[1]), "ALL", "other"]


def test_a_folder_without_complete_test_sets_is_an_error(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        error_of(find_sense_tests, folder, kind=InputError, after=folder / "*.data.xml*: ")
    write(tmp_path / "x.data.xml", "")
    error_of(find_sense_tests, tmp_path, kind=InputError, after=tmp_path / "x.gold.key.txt*: ")


def test_the_first_sense_of_an_adjective_may_be_a_satellite(tmp_path):
    index = read_sense_index(write(tmp_path / "index.gz", INDEX))
    assert index.first["odd%3"] == "odd%5:00:00:strange:00"
    assert index.first["bank%1"] == "bank%1:17:01::"
    assert index.numbers["bank%1:14:00::"] == 2


@pytest.mark.parametrize("bad", ["bank%1:14:00:: 08420278 2", "bank%1:14:00:: 0 two 3", "a 0 1 2"])
def test_a_bad_line_of_the_index_is_named(tmp_path, bad):
    path = write(tmp_path / "index", f"{INDEX}{bad}\n")
    error_of(read_sense_index, path, kind=FormatError, after=f"{path}, line 6: ")
    empty = write(tmp_path / "empty", "\n")
    error_of(read_sense_index, empty, kind=InputError, after=f"{empty}: ")


def test_words_have_universal_tags_or_the_language_s_own(tmp_path):
    contents = "# text = a b\n1-2\tab" + "\t_" * 8 + "\n" + conllu("a/DET b/NOUN", "#/SYM")
    path = write(tmp_path / "a.conllu.gz", contents.replace("\n", "\r\n"))
    assert read_tagged(path) == [
        TaggedWords(("a", "b"), ("DET", "NOUN")),
        TaggedWords(("#",), ("SYM",)),
    ]
    assert read_tagged(path, "xpos")[0].tags == ("XDET", "XNOUN")


def test_a_bad_file_of_tags_is_told_in_one_line(tmp_path):
    short = write(tmp_path / "a", conllu("a/DET") + "\n2\tb\n")
    error_of(read_tagged, short, kind=FormatError, after=f"{short}, line 3: ")
    none = write(tmp_path / "b", "# nothing\n")
    error_of(read_tagged, none, kind=InputError, after=f"{none}: ")
    assert "try --tag xpos" in error_of(read_tagged, write(tmp_path / "c", conllu("a/_")))


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
    error_of(read_minimal_pairs, [str(summary)], kind=FormatError, after=f"{summary}, line 1: ")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (minimal_pair("A.", "B.").replace("UID", "uid"), "'UID'"),
        (minimal_pair("A.", " "), "'sentence_bad'"),
        (minimal_pair("A.", "B.", field=3), "'field'"),
        ("The cat sat.\n", "is not JSON"),
        ("[1]\n", "holds a list"),
    ],
)
def test_a_line_that_is_not_a_pair_is_told_with_its_place(tmp_path, line, what):
    path = write(tmp_path / "a.jsonl", minimal_pair("A.", "B.") + line)
    said = error_of(read_minimal_pairs, [path], kind=FormatError, after=f"{path}, line 2: ")
    assert what in said
    empty = write(tmp_path / "b.jsonl", "\n")
    error_of(read_minimal_pairs, [empty], kind=InputError, after=f"{empty}: ")


def test_blimp_as_published():
    if not BLIMP.is_dir():
        pytest.skip("BLiMP is in ../shared/data, which is not here")
    pairs = read_minimal_pairs([BLIMP / "blimp.jsonl.gz"])
    assert (len(pairs), {len(of_it) for of_it in pairs.values()}) == (67, {1000})
    phenomena = Counter(paradigm.phenomenon for paradigm in pairs)
    assert (len(phenomena), phenomena["argument_structure"]) == (12, 9)
    assert len({paradigm.field for paradigm in pairs}) == 4
    assert sum(good == bad for of_it in pairs.values() for good, bad in of_it) == 7


def test_tags_are_read_from_columns_too(tmp_path):
    text = "-DOCSTART- -X- O O\n\nThe DT B-NP O\nbank NN I-NP B-ORG\n\na\u00a0b CD O O\n"
    path = write(tmp_path / "eng.train", text)
    found = read_tagged(path)
    assert [one.words for one in found] == [("The", "bank"), ("a\u00a0b",)]
    assert [one.tags for one in found] == [("DT", "NN"), ("CD",)]
    assert read_tagged(path, 4)[0].tags == ("O", "B-ORG")
    wrong = error_of(read_tagged, path, 5, kind=FormatError, after=f"{path}, line 3: ")
    assert "has 4 columns" in wrong
    table = write(tmp_path / "a.conllu", conllu("a/DET"))
    assert "upos or xpos" in error_of(read_tagged, table, 2)
