"""Whatever the API's schema allows is asked of it: no answer is a 500."""

from __future__ import annotations

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from tests.arena.conftest import FREE

from rewardlab.arena.place import Place
from rewardlab.web.app import whole_app

EXAMPLES = 25  # of each operation


def test_no_request_ends_in_a_500(played: Place, tmp_path: Any) -> None:
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", whole_app(played, tmp_path, FREE))
    secret = played.accounts.make_token(played.accounts.add_user("fuzz"))
    asked = 0
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        operation = result.ok()

        @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            nonlocal asked
            asked += 1
            case.call_and_validate(headers={"X-Auth-Token": secret}, checks=[not_a_server_error])

        ask()
    assert asked > 15 * EXAMPLES / 2
