"""Tokens, principals and the agents that they stand for."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from threadbus.gateways.errors import GatewayError, TokensFileError
from threadbus.gateways.principals import Principal, Principals, add_token
from threadbus.schemas import AgentName, InvalidNameError

SECRET = "s3cret-" * 6


def write(path: Path, content: Any, mode: int = 0o600) -> Path:
    """Write a tokens file."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def test_a_token_is_one_principal_and_one_agent(tmp_path: Path) -> None:
    """A token, or its hash, says who it is; anything else is nobody."""
    path = tmp_path / "tokens.json"
    bob = add_token(path, "bob", "bob@example.org")
    entries = json.loads(path.read_text())["tokens"]
    write(path, {"tokens": [*entries, {"token": SECRET, "agent": "ada"}]})
    principals = Principals(path)

    assert principals.find(bob) == Principal("bob@example.org", AgentName("bob"))
    assert principals.find(SECRET) == Principal("ada", AgentName("ada"))
    assert principals.agents == {"ada", "bob"}
    for wrong in ("", SECRET[:-1], SECRET + "x", SECRET.upper(), "\ud800" * 40, "x" * 100_000):
        assert principals.find(wrong) is None


def test_a_new_token_is_kept_as_its_hash_in_a_file_of_the_owner(tmp_path: Path) -> None:
    """The token itself is shown once; the file is readable by its owner only."""
    path = tmp_path / "tokens.json"
    first, second = add_token(path, "ada"), add_token(path, "ada")

    assert path.stat().st_mode & 0o777 == 0o600
    assert first not in path.read_text()
    principals = Principals(path)
    assert principals.find(first) == principals.find(second) == Principal("ada", AgentName("ada"))
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.json"]


def test_a_token_for_no_agent_name_is_not_made(tmp_path: Path) -> None:
    """The error has a name that would do, and no file is left behind."""
    with pytest.raises(InvalidNameError):
        add_token(tmp_path / "tokens.json", "Not A Name")
    assert [file.name for file in tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is not valid"),
        ("{", "is not valid"),
        ("[" * 100_000, "is not valid"),
        ({"tokens": []}, "holds no token"),
        ({"tokens": {}}, "is not valid"),
        ({"tokens": [{"token": SECRET}]}, "missing required field `agent`"),
        ({"tokens": [{"token": SECRET, "agent": "ada", "x": 1}]}, "unknown field `x`"),
        ({"tokens": [{"token": SECRET, "agent": "No Name"}]}, "agent name 'No Name'"),
        ({"tokens": [{"token": "short", "agent": "ada"}]}, "a token of 5 characters"),
        ({"tokens": [{"agent": "ada"}]}, "either token or sha256"),
        ({"tokens": [{"agent": "a", "token": SECRET, "sha256": "0" * 64}]}, "either token or"),
        ({"tokens": [{"agent": "ada", "sha256": "beef"}]}, "is not valid"),
        ({"tokens": [{"token": SECRET, "agent": "a"}, {"token": SECRET, "agent": "b"}]}, "twice"),
    ],
)
def test_a_file_that_is_wrong_is_refused_without_telling_a_token(
    tmp_path: Path, content: Any, reason: str
) -> None:
    """The error names the file and what is wrong, and holds no secret."""
    path = write(tmp_path / "tokens.json", content)

    with pytest.raises(TokensFileError) as refusal:
        Principals(path).load()
    assert str(path) in str(refusal.value)
    assert reason in str(refusal.value)
    assert SECRET not in str(refusal.value)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """The error says which mode it has and how to change it."""
    path = write(tmp_path / "t.json", {"tokens": [{"token": SECRET, "agent": "ada"}]}, 0o640)

    with pytest.raises(TokensFileError, match=r"mode 0640.*chmod 600"):
        Principals(path).load()


def test_a_file_that_is_not_there_or_none_is_refused(tmp_path: Path) -> None:
    """A missing file and a folder are told apart from an empty one."""
    with pytest.raises(TokensFileError, match="cannot be read"):
        Principals(tmp_path / "none").load()
    with pytest.raises(TokensFileError, match="cannot be read"):
        Principals(tmp_path).load()


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    """A token that was taken out lets nobody in, without a restart."""
    path = tmp_path / "tokens.json"
    old = add_token(path, "ada")
    principals = Principals(path)
    assert principals.find(old) is not None

    path.unlink()
    new = add_token(path, "ada")

    assert principals.find(new) is not None
    assert principals.find(old) is None


def test_a_file_that_breaks_leaves_the_last_good_one_in_force(tmp_path: Path) -> None:
    """A slip of the pen does not shut everybody out."""
    path = tmp_path / "tokens.json"
    token = add_token(path, "ada")
    principals = Principals(path)
    principals.load()

    write(path, "{")
    assert principals.find(token) is not None
    path.unlink()
    assert principals.find(token) is not None


def test_the_error_survives_pickling() -> None:
    """It is caught by the root of the gateways and by ValueError."""
    error = TokensFileError("f", "why", "how")

    assert isinstance(error, GatewayError)
    assert isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301
