from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode, checks

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


CASES = [
    (label, mode)
    for label, operation in OPERATIONS.items()
    for mode in GenerationMode
    if operation.body or mode is GenerationMode.POSITIVE  # without a body, what could be wrong?
]


@pytest.mark.parametrize(("label", "mode"), CASES)
def test_whatever_the_document_allows_or_forbids_has_the_response_it_says(address, label, mode):
    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate(base_url=address, checks=CHECKS, timeout=20)

    check()
