"""The arguments of `bus metrics` and `bus doctor`: what is refused before anything is opened."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from threadbus.agents.cli.tree import app


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("metrics", "--every", "0"), "0.1 to 3600"),
        (("metrics", "--every", "nan"), "0.1 to 3600"),
        (("metrics", "--max-agents", "0"), "1 to 10,000"),
        (("metrics", "--max-agents", "10001"), "1 to 10,000"),
        (("metrics", "--http", "9464"), "HOST:PORT"),
        (("metrics", "--http", "a:65536"), "HOST:PORT"),
        (("doctor", "--minutes", "0"), "above 0"),
        (("doctor", "--hours", "nan"), "above 0"),
        (("doctor", "--events", "100001"), "1 to 100,000"),
        (("forget", "No Name"), "no-name"),
    ],
)
def test_a_bad_argument_is_refused_with_what_would_do(
    arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, the value and its bounds; no server is looked for."""
    ran = CliRunner().invoke(app, [*arguments, "--url", "nats://127.0.0.1:1"])

    assert ran.exit_code == 2
    assert words in ran.stderr
    assert arguments[2:] == () or arguments[2].rstrip(".0") in ran.stderr
