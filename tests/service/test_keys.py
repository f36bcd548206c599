from __future__ import annotations

import pytest

from elmokit.errors import InputError
from elmokit.service.middleware import Keys, read_keys


def test_each_line_of_a_file_is_a_key(tmp_path):
    file = tmp_path / "keys.txt"
    file.write_text("first-key-of-two\n\n  second-key-of-two \n")
    keys = read_keys(file, "not-used-at-all")
    assert keys is not None
    assert keys.allow("Bearer first-key-of-two")
    assert keys.allow("Bearer second-key-of-two")
    assert not keys.allow("Bearer not-used-at-all")


def test_without_a_file_the_variable_counts_and_without_both_nothing():
    keys = read_keys(None, "from-environment")
    assert keys is not None
    assert keys.allow("Bearer from-environment")
    assert read_keys(None, None) is None


def test_keys_are_not_shown():
    assert "secret" not in repr(Keys(["secret-of-mine"])) + str(vars(Keys(["secret-of-mine"])))


@pytest.mark.parametrize(
    ("contents", "message"),
    [(b"", "holds no API key"), (b"short", "at least 8"), (b"\xff\xfe\xff\xfe", "not UTF-8")],
)
def test_a_file_without_good_keys_is_refused_unquoted(tmp_path, contents, message):
    file = tmp_path / "keys.txt"
    file.write_bytes(contents)
    with pytest.raises(InputError, match=message) as refused:
        read_keys(file, None)
    assert "short" not in str(refused.value)
    with pytest.raises(InputError, match="cannot be read"):
        read_keys(tmp_path / "none.txt", None)
