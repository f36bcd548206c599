from __future__ import annotations

import pytest

from elmokit.bulk.inputs import InputSettings, open_input
from elmokit.bulk.ray import checked, or_failure, shards_of, with_failure
from elmokit.errors import DiskError, FormatError


def test_error_on_another_machine_is_raised_where_the_user_is(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"fine\n")
    (shard,) = shards_of(open_input([str(path)], InputSettings()), 120)
    path.write_bytes(b"fine\n" * 60 + b"\xff\n")
    *_, last = with_failure(shard.parts())
    with pytest.raises(FormatError, match=r"text\.txt, line 61: is not UTF-8"):
        checked(last)


def test_error_of_a_call_is_raised_as_what_it_was():
    def fail():
        raise DiskError("out.parquet: cannot be written; free some space")

    with pytest.raises(DiskError, match="free some space"):
        checked(or_failure(fail))
    assert checked(or_failure(lambda: {"rows": 3})) == {"rows": 3}


def test_error_defined_elsewhere_is_raised_as_the_kind_that_it_is_of():
    class NewerVersionError(FormatError):
        pass

    def fail():
        raise NewerVersionError("config.json: is of version 9; upgrade")

    with pytest.raises(FormatError, match="is of version 9"):
        checked(or_failure(fail))
