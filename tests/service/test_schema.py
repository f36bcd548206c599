from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies
from schemathesis import GenerationMode, checks
from service.small_services import running

from elmokit.service.middleware import Limits
from elmokit.service.server import create_application
from elmokit.service.state import Service

CHECKS = (
    checks.not_a_server_error,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
)
DOCUMENT = create_application(Service(pytest.fail, Limits())).openapi()
OPERATIONS = {
    found.ok().label: found.ok()
    for found in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
}


TASKS = ("spam", "ner", "pos", "nli", "squad", "srl", "coref", "none")


@pytest.fixture(scope="module")
def address(answering):
    with running(lambda: answering) as found:
        yield found


CASES = [
    (label, mode)
    for label, operation in OPERATIONS.items()
    for mode in GenerationMode
    if operation.body or mode is GenerationMode.POSITIVE  # without a body, what could be wrong?
]


@pytest.mark.parametrize(("label", "mode"), CASES)
def test_whatever_the_document_allows_or_forbids_has_the_response_it_says(address, label, mode):
    @settings(
        max_examples=48 if "{name}" in label else 12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=OPERATIONS[label].as_strategy(generation_mode=mode),
        name=strategies.sampled_from(TASKS),
    )
    def check(case, name):
        if "{name}" in label:  # of which nobody guesses one
            case.path_parameters["name"] = name
        case.call_and_validate(base_url=address, checks=CHECKS, timeout=20)

    check()
