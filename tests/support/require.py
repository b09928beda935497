"""What a test does when something that it needs is not on this machine."""

import os

import pytest

REQUIRE_ALL = "THREADBUS_REQUIRE_ALL"
"""Set in CI: what is missing there is a failure, since a skipped test proves nothing."""


def require(what: str, found: object) -> None:
    """Skip the running test when *found* is falsy, and fail it where everything is required.

    Args:
        what: What the test needs, and how to get it: "a Docker engine (apt-get install docker.io)".
        found: Whatever the search for it gave; empty, false or None means missing.

    Raises:
        pytest.fail.Exception: It is missing and the variable THREADBUS_REQUIRE_ALL is set.
        pytest.skip.Exception: It is missing and the variable is not set.
    """
    if found:
        return
    if os.environ.get(REQUIRE_ALL):
        pytest.fail(f"missing: {what}; {REQUIRE_ALL} is set, so this is a failure", pytrace=False)
    pytest.skip(f"missing: {what}")
