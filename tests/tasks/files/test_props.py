from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers import write
from tasks.small_files import read, said_of

from elmokit.errors import ElmoWarning
from elmokit.tasks.srl.propositions import Proposition
from elmokit.tasks.tags import LabelledSpan

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"

PROPBANK = """\
# sent_id = one
0	Who	WP	-	-	(ARG0*)	*
1	sold	VBD	sell	sell.01	(V*)	*
2	the	DT	-	-	(ARG1*	*
3	old	JJ	-	-	*	(ARGM-ADJ*)
4	car	NN	car	car.01	*)	(V*
5	wash	NN	-	-	*	*)

# sent_id = two
0	-LRB-	-LRB-	-	-
1	Yes	UH	-	-
"""
PROPOSITIONS = (
    Proposition(
        1, (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("ARG1", 2, 5))
    ),
    Proposition(4, (LabelledSpan("ARGM-ADJ", 3, 4), LabelledSpan("V", 4, 6))),
)

# Ann has a lemma and a sense, but is no predicate.
CONLL_2012 = """\
#begin document (bc/cctv/00/cctv_0000); part 000
bc/cctv/00/cctv_0000  0  0  Ann   NNP (TOP(S(NP*)  ann  -    1  sp1  (PERSON)  (ARG0*)    *   (1)
bc/cctv/00/cctv_0000  0  1  said  VBD (VP*         say  01   1  sp1  *         (V*)       *    -
bc/cctv/00/cctv_0000  0  2  it    PRP (SBAR(S(NP*) -    -    -  sp1  *         (ARG1*  (ARG1*) -
bc/cctv/00/cctv_0000  0  3  rains VBZ (VP*)))))    rain 01   1  sp1  *         *)      (V*)    -

#end document
"""


def test_propbank_has_a_proposition_for_each_column(tmp_path: Path) -> None:
    path = write(tmp_path / "roles.tsv", PROPBANK)
    first, second = read("srl", path)
    assert first.words == ("Who", "sold", "the", "old", "car", "wash")
    assert first.propositions == PROPOSITIONS
    assert first.place == f"{path}, line 2"
    assert (second.words, second.propositions) == (("(", "Yes"), ())


def test_the_predicate_is_the_word_with_the_roleset_not_the_first_of_its_phrase(
    tmp_path: Path,
) -> None:
    text = "0\tlet\tVB\t-\t-\t(V*\n1\tgo\tVB\tgo\tgo.01\t*)\n"
    [sentence] = read("srl", write(tmp_path / "roles.tsv", text))
    assert sentence.propositions == (Proposition(1, (LabelledSpan("V", 0, 2),)),)


def test_conll_2012_has_a_predicate_wherever_a_column_says_so(tmp_path: Path) -> None:
    [sentence] = read("srl", write(tmp_path / "roles.conll", CONLL_2012))
    assert sentence.words == ("Ann", "said", "it", "rains")
    assert sentence.propositions == (
        Proposition(
            1, (LabelledSpan("ARG0", 0, 1), LabelledSpan("V", 1, 2), LabelledSpan("ARG1", 2, 4))
        ),
        Proposition(3, (LabelledSpan("ARG1", 2, 3), LabelledSpan("V", 3, 4))),
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.tsv.gz", PROPBANK), ("a.gold_conll", CONLL_2012), ("a.conll", CONLL_2012)],
)
def test_the_name_of_a_file_says_which_columns_it_has(name: str, text: str, tmp_path: Path) -> None:
    assert len(read("srl", write(tmp_path / name, text))[0].propositions) == 2


def test_a_format_that_is_named_counts_more_than_the_name(tmp_path: Path) -> None:
    path = write(tmp_path / "roles.txt", PROPBANK)
    assert read("srl", path, format="propbank")[0].propositions
    assert said_of("srl", path).startswith(", line 2: has 7 columns which are not those of")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("*)\t(V*\n", "*\t(V*\n", 4, "column 6 opens (ARG1, which is not closed"),
        ("(ARG1*", "*", 6, "column 6 closes a phrase that was not opened"),
        ("*\t(ARGM-ADJ*)", "(ARG2*\t(ARGM-ADJ*)", 5, "column 6 opens (ARG2 while (ARG1 is open"),
        ("(ARG0*)", "ARG0", 2, "column 6 is 'ARG0'; write (ARG0* where a phrase opens"),
        ("old\tJJ\t-\t-\t*\t", "old\tJJ\t-\t-\t", 5, "has 6 columns, but the lines before"),
        ("3\told\tJJ\t-\t-\t*\t(ARGM-ADJ*)", "3\told", 5, "has 2 columns which are not those of"),
        ("2\tthe", "two\tthe", 4, "has 7 columns which are not those of semantic roles: number"),
        ("sell.01", "-", 2, "the sentence has 1 word with a roleset, but 2 columns of arguments"),
        ("2\tthe", "2\t", 4, "has no word"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    old: str, new: str, line: int, message: str, tmp_path: Path
) -> None:
    assert PROPBANK.count(old) == 1
    found = said_of("srl", write(tmp_path / "roles.tsv", PROPBANK.replace(old, new)))
    assert found.startswith(f", line {line}: {message}")


def test_a_column_without_a_predicate_is_refused(tmp_path: Path) -> None:
    text = CONLL_2012.replace("(V*)    -", "*       -")
    found = said_of("srl", write(tmp_path / "a.conll", text))
    assert found.startswith(", line 2: column 13 of the sentence has no predicate")


def test_a_column_of_propbank_has_its_predicate_too(tmp_path: Path) -> None:
    found = said_of("srl", write(tmp_path / "a.tsv", PROPBANK.replace("(V*)", "*   ")))
    assert found.startswith(", line 2: column 6 of the sentence has no predicate")


def test_columns_in_another_order_than_their_predicates_are_noticed(tmp_path: Path) -> None:
    text = "0\tlet\tVB\tlet\tlet.01\t*\t(V*)\n1\tgo\tVB\tgo\tgo.01\t(V*)\t*\n"
    with pytest.warns(ElmoWarning, match="after: of 2 predicates .* another one; are the"):
        read("srl", write(tmp_path / "roles.tsv", text))


def test_a_word_may_hold_blanks_that_do_not_break(tmp_path: Path) -> None:
    text = CONLL_2012.replace("Ann  ", "10\xa0000")
    [sentence] = read("srl", write(tmp_path / "roles.conll", text))
    assert sentence.words[0] == "10\xa0000"


def test_a_file_without_any_predicate_is_refused(tmp_path: Path) -> None:
    text = PROPBANK[PROPBANK.index("# sent_id = two") :]
    assert said_of("srl", write(tmp_path / "roles.tsv", text)).startswith(
        ": no word of it is a predicate"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("eng.train", "EU NNP B-NP B-ORG\n", "line 1: has 4 columns which are not those of"),
        ("gap.tsv", "ID\tText\tPronoun\tA\tB\tC\n", "line 1: has 6 columns which are not those of"),
        ("trees.txt", "(3 (2 It) (4 works))\n", "line 1: has 5 columns which are not those of"),
    ],
)
def test_a_file_of_another_task_is_refused(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    assert message in said_of("srl", write(tmp_path / name, text))


@pytest.mark.parametrize(
    ("part", "sentences", "predicates", "arguments"),
    [("dev", 1963, 4960, 9576), ("test", 2054, 4795, 9337)],
)
def test_propbank_of_the_web_treebank(
    part: str, sentences: int, predicates: int, arguments: int
) -> None:
    path = DATA / f"srl-ewt/propbank-ewt.{part}.tsv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is in ../shared/data, which is not here")
    found = read("srl", path)
    assert len(found) == sentences
    roles = Counter(
        phrase.type
        for sentence in found
        for proposition in sentence.propositions or ()
        for phrase in proposition.phrases
    )
    assert roles.pop("V") == predicates
    assert sum(roles.values()) == arguments
