# ruff: noqa: RUF001 (characters that look alike are the point here)
import gzip
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import ROOT, error_of, loaded_by
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from elmokit.errors import ConfigError, InputError
from elmokit.text.tokenizer import (
    LONGEST_SENTENCE,
    STAND_INS,
    DefaultTokenizer,
    Token,
    Tokenizer,
    WhitespaceTokenizer,
    load_tokenizer,
    spaced_treebank,
    tokenizer_of,
)

DATA = ROOT.parent / "shared" / "data"
EWT = DATA / "ud-ewt" / "en_ewt-ud-dev.conllu.gz"
CONLL = DATA / "conll2003" / "eng.testa.gz"
BOTH = pytest.mark.parametrize("tokenizer", [DefaultTokenizer(), WhitespaceTokenizer()])


def texts(sentences: list[list[Token]]) -> list[list[str]]:
    return [[token.text for token in sentence] for sentence in sentences]


def split(text: str) -> list[list[str]]:
    return texts(DefaultTokenizer().sentences(text))


def words(text: str) -> str:
    return " ".join(token.text for token in DefaultTokenizer().words(text))


# What must hold for any text


MARKS = [
    *('"', "''", "``", "'", "’", "”", "(", "。", "…", "$", "n't", "'s"),
    *("cannot", "Mr.", "U.S.", "😀", "한", "你", "か"),
]
STRANGE = [" ", ". ", "\n\n", "\ud800", "\0", "\u3000", "\x1c", "\x85", "\u200d", "\u0301"]
AWKWARD = st.sampled_from(MARKS + STRANGE)
ANY_TEXT = st.lists(AWKWARD | st.characters() | st.text(max_size=8), max_size=20).map("".join)


@BOTH
@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_every_character_but_whitespace_is_kept_in_place_and_in_order(
    tokenizer: Tokenizer, text: str
):
    tokens = tokenizer.words(text)

    assert "".join(token.text for token in tokens) == "".join(text.split())
    assert all(token.text == text[token.start : token.end] for token in tokens)
    assert all(token.text.split() == [token.text] for token in tokens)


@BOTH
@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_words_are_those_of_all_sentences_and_no_sentence_is_empty(tokenizer: Tokenizer, text: str):
    sentences = tokenizer.sentences(text)

    assert [token for sentence in sentences for token in sentence] == tokenizer.words(text)
    assert all(sentences)


@BOTH
@pytest.mark.parametrize("text", ["", " ", "\n", " \n\t\r\n \u3000"])
def test_text_without_a_word_has_no_sentence(tokenizer: Tokenizer, text: str):
    assert tokenizer.sentences(text) == []
    assert tokenizer.words(text) == []


@BOTH
def test_every_character_of_unicode_is_kept(tokenizer: Tokenizer):
    text = " ".join(map(chr, range(0x11000)))

    assert "".join(token.text for token in tokenizer.words(text)) == "".join(text.split())


@pytest.mark.parametrize(
    "unit", ["a", "(", '"', ".", "!", "'", " ", "\n", "a b. ", "你好吗我很好。", "สวัสดี", "don't "]
)
def test_a_long_line_takes_time_in_proportion_to_its_length(unit: str):
    def seconds(length: int) -> float:
        text = (unit * length)[:length]
        start = time.thread_time()
        DefaultTokenizer().words(text)
        return time.thread_time() - start

    seconds(1000)

    # 4 would be linear and 16 quadratic; a busy machine makes one measurement unreliable.
    assert any(seconds(32_000) < 10 * seconds(8_000) + 0.02 for _ in range(5))


def test_threads_get_what_one_thread_gets():
    text = 'He said, "I can\'t." Mr. Day left (at 5 p.m.). 今天天气很好。'

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(DefaultTokenizer().sentences, [text] * 64))

    assert all(result == DefaultTokenizer().sentences(text) for result in results)


# English, by the conventions of the Penn Treebank


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't know.", "I do n't know ."),
        ("They can't, won't, and cannot.", "They ca n't , wo n't , and can not ."),
        ("John's dog, the dogs' bowl", "John 's dog , the dogs ' bowl"),
        ("We'll see; I'm sure you've won.", "We 'll see ; I 'm sure you 've won ."),
        ("Mr. and Mrs. Day live in the U.S. now.", "Mr. and Mrs. Day live in the U.S. now ."),
        ('He said "yes".', 'He said " yes " .'),
        ("“Don’t,” she said.", "“ Do n’t , ” she said ."),
        ("``Hello,'' she said.", "`` Hello , '' she said ."),
        ("''Hello,'' she said.", "'' Hello , '' she said ."),
        ("It cost $3.50 (or 10% of 1,000).", "It cost $ 3.50 ( or 10 % of 1,000 ) ."),
        ("A well-known 25-year-old -- or so.", "A well-known 25-year-old -- or so ."),
        ("Wait... what?! No…", "Wait ... what ? ! No …"),
        ("At 10:30, £5 and €7.", "At 10:30 , £ 5 and € 7 ."),
        ("I'm gonna go", "I 'm gon na go"),
        ("He left at 5 p.m.", "He left at 5 p.m ."),  # a period that ends the sentence
    ],
)
def test_english_words_are_those_of_the_penn_treebank(text: str, expected: str):
    assert words(text) == expected


def test_sentences_end_at_their_marks_but_not_at_abbreviations():
    text = 'Dr. Day came at 5 p.m. on Jan. 3. "Why?" he asked. It cost $3.5 million! Did it?'
    quoted = ' He said "Hi." He said: "I came. I saw Mr. Day."'

    assert [" ".join(sentence) for sentence in split(text + quoted)] == [
        "Dr. Day came at 5 p.m. on Jan. 3 .",
        '" Why ? " he asked .',
        "It cost $ 3.5 million !",
        "Did it ?",
        'He said " Hi . "',
        'He said : " I came . I saw Mr. Day . "',
    ]


def test_blank_line_ends_a_sentence_and_a_line_break_does_not():
    assert split("A title\n \nIt goes\non here.\r\n\r\nEnd") == [
        ["A", "title"],
        ["It", "goes", "on", "here", "."],
        ["End"],
    ]


def test_sentences_of_a_paragraph_do_not_depend_on_the_others():
    first, second = 'He said "no. Never', 'Why?" he asked. Yes.'

    assert split(f"{first}\n\n{second}") == split(first) + split(second)


def test_long_paragraph_is_cut_into_the_sentences_it_would_have_alone():
    sentence = "Mr. Day can't say why he came here, but he did. "

    assert split(sentence * 500) == split(sentence) * 500


def test_sentence_beyond_the_limit_is_cut_between_words():
    sentences = DefaultTokenizer().sentences("word " * LONGEST_SENTENCE)

    assert {token.text for sentence in sentences for token in sentence} == {"word"}
    assert max(sentence[-1].end - sentence[0].start for sentence in sentences) <= LONGEST_SENTENCE


# Other scripts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("나는 학생이다. 서울에 산다! 정말?", ["나는 학생이다 .", "서울에 산다 !", "정말 ?"]),
        ("我来了。你呢？", ["我 来 了 。", "你 呢 ？"]),
        ("東京タワーだ。「はい」", ["東 京 タワー だ 。", "「 は い 」"]),
        ("كيف حالك؟ بخير، شكرا.", ["كيف حالك ؟", "بخير ، شكرا ."]),
        ("यह है। क्या?", ["यह है ।", "क्या ?"]),
        ("یہ ہے۔ اچھا۔", ["یہ ہے ۔", "اچھا ۔"]),
        ("Ինչպե՞ս ես։ Լավ։", ["Ինչպե՞ս ես ։", "Լավ ։"]),
        ("ሰላም። እንዴት ነህ፧", ["ሰላም ።", "እንዴት ነህ ፧"]),
        ("צה״ל כאן. מה?", ["צה״ל כאן .", "מה ?"]),
        ("Привет, мир! «Да».", ["Привет , мир !", "« Да » ."]),
        ("¿Qué? ¡No! L’été…", ["¿ Qué ?", "¡ No !", "L’été …"]),
        ("สวัสดีครับ คุณสบายดีไหม", ["สวัสดีครับ คุณสบายดีไหม"]),
        ("٣٫٥ و ١٬٠٠٠", ["٣٫٥ و ١٬٠٠٠"]),
    ],
)
def test_sentence_ends_and_punctuation_of_every_script_are_seen(text: str, expected: list[str]):
    assert [" ".join(sentence) for sentence in split(text)] == expected


def test_characters_joined_into_one_emoji_stay_one_word():
    assert split("👨\u200d👩\u200d👧 here") == [["👨\u200d👩\u200d👧", "here"]]


# Whitespace


def test_whitespace_tokenizer_takes_a_line_for_a_sentence_and_skips_blank_lines():
    assert texts(WhitespaceTokenizer().sentences("The cat .\r\n\n  \nIt 's\u3000mine.\n")) == [
        ["The", "cat", "."],
        ["It", "'s", "mine."],
    ]


@given(text=ANY_TEXT)
def test_whitespace_tokenizer_splits_like_str_split(text: str):
    assert [token.text for token in WhitespaceTokenizer().words(text)] == text.split()


# Names


def test_names_recorded_in_model_folders_never_change():
    assert type(load_tokenizer("default")) is DefaultTokenizer
    assert type(load_tokenizer("whitespace")) is WhitespaceTokenizer


@pytest.mark.parametrize("name", ["spacy", "", None, ["default"]])
def test_unknown_name_is_an_error_with_the_known_ones(name: str):
    message = error_of(load_tokenizer, name, kind=ConfigError)
    assert "use one of 'default', 'whitespace', 'kiwi'" in message


def test_import_and_the_whitespace_tokenizer_load_no_library():
    program = (
        "from elmokit.text.tokenizer import load_tokenizer;"
        "load_tokenizer('whitespace').words('a b'); load_tokenizer('default')"
    )
    assert not loaded_by(program, ["sentencex", "numpy", "torch"])


# Agreement with NLTK, and with the data of the tasks

PIECES = [*"aAsStTmMdDlLeErRvV1. ',;:!?()[]{}<>-`“”*$\n—…é", "n't", "'ll", "cannot", "d'ye"]
PIECES += ["gimme", "gonna", "gotta", "lemme", "more'n", "wanna", "'tis", "'twas", " ", " "]


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
@settings(max_examples=300)
def test_words_are_those_that_nltk_finds(sentence: str):
    assert spaced_treebank(sentence).split() == NLTKWordTokenizer().tokenize(sentence)


@pytest.mark.skipif(not EWT.exists(), reason="../shared/data/ud-ewt is not here")
def test_words_of_real_text_are_those_that_nltk_finds():
    for raw, _ in ewt_sentences():
        shown = raw.translate(STAND_INS)
        assert spaced_treebank(shown).split() == NLTKWordTokenizer().tokenize(shown)


def ewt_sentences() -> Iterator[tuple[str, list[str]]]:
    for block in gzip.decompress(EWT.read_bytes()).decode().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines() if line[:1].isdigit()]
        raw = [line for line in block.splitlines() if line.startswith("# text = ")]
        for text in raw:
            yield text.removeprefix("# text = "), [row[1] for row in rows if row[0].isdigit()]


def word_ends(forms: list[str]) -> set[int]:
    """Ends of words, whitespace not counted: with these the same, the words are the same."""
    ends, place = set(), 0
    for form in forms:
        place += len(form.replace(" ", ""))
        ends.add(place)
    return ends


@pytest.mark.skipif(not EWT.exists(), reason=f"{EWT} is not here")
def test_words_of_the_english_web_treebank_are_found():
    right = found = gold = 0
    for text, forms in ewt_sentences():
        # The treebank of the web cuts at hyphens, the Penn Treebank does not.
        if "-" not in text:
            ends = word_ends([token.text for token in DefaultTokenizer().words(text)])
            right += len(ends & word_ends(forms))
            found += len(ends)
            gold += len(word_ends(forms))

    assert 2 * right / (found + gold) > 0.98


@pytest.mark.skipif(not CONLL.exists(), reason=f"{CONLL} is not here")
def test_words_of_conll_2003_stay_whole():
    kept = total = 0
    for block in gzip.decompress(CONLL.read_bytes()).decode().split("\n\n"):
        forms = [line.split()[0] for line in block.splitlines() if line.strip()]
        again = {token.text for token in DefaultTokenizer().words(" ".join(forms))}
        kept += sum(form in again for form in forms)
        total += len(forms)

    assert kept / total > 0.99


# A tokenizer of the user's


class Halves:
    """Sentences between stars, words of two characters."""

    def sentences(self, text: str) -> list[list[Token]]:
        return [[Token(text[:2], 0, 2)], [Token(text[2:], 2, len(text))]]

    def words(self, text: str) -> list[Token]:
        return [token for sentence in self.sentences(text) for token in sentence]


def test_an_object_with_sentences_and_words_is_a_tokenizer():
    halves = tokenizer_of(Halves())  # type: ignore[arg-type]
    assert (halves.name, texts(halves.sentences("abcd"))) == ("Halves", [["ab"], ["cd"]])
    assert halves.words("abcd") == Halves().words("abcd")
    default = load_tokenizer("default")
    assert tokenizer_of(default) is default
    assert tokenizer_of("whitespace").name == "whitespace"


def test_a_function_from_text_to_words_is_a_tokenizer():
    tokenizer = tokenizer_of(str.split)
    assert tokenizer.sentences("a  bc\na") == [
        [Token("a", 0, 1), Token("bc", 3, 5), Token("a", 6, 7)]
    ]
    assert tokenizer.sentences(" ") == []
    assert tokenizer_of(list).words("a b") == [Token("a", 0, 1), Token("b", 2, 3)]


def test_words_that_a_function_changes_have_the_place_of_what_is_written():
    tokenizer = tokenizer_of(lambda text: ["ich", "gehen", "an", "das", "Ufer"])
    assert [token[1:] for token in tokenizer.words("ich ging an dem Ufer")] == [
        *((0, 3), (4, 8), (9, 11), (12, 15), (16, 20)),
    ]


@pytest.mark.parametrize("wrong", [7, None])
def test_what_is_no_tokenizer_is_one_line(wrong):
    assert error_of(tokenizer_of, wrong, kind=InputError).startswith("tokenizer is ")


def test_a_function_that_gives_no_words_is_one_line():
    tokenizer = tokenizer_of(lambda text: [("a", "NOUN")])  # type: ignore[list-item, return-value]
    assert "must give a list of words" in error_of(tokenizer.words, "a", kind=InputError)
