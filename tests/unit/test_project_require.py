"""Missing services: a loud skip on a desk, a failure in CI."""

import pytest

from tests.support.require import REQUIRE_ALL, require


def test_what_is_there_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing happens when the service was found."""
    monkeypatch.setenv(REQUIRE_ALL, "1")

    require("a thing", "found")


def test_what_is_missing_is_skipped_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a desk the test is skipped, and the reason names what to install."""
    monkeypatch.delenv(REQUIRE_ALL, raising=False)

    with pytest.raises(pytest.skip.Exception, match=r"missing: a thing \(install it\)"):
        require("a thing (install it)", None)


def test_what_is_missing_fails_where_everything_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In CI the same is a failure."""
    monkeypatch.setenv(REQUIRE_ALL, "1")

    with pytest.raises(pytest.fail.Exception, match="missing: a thing"):
        require("a thing", None)
