"""Settings of the model port: where they come from, and what they never show."""

from __future__ import annotations

import pickle
from datetime import timedelta

import msgspec
import pytest

from threadbus.agents.errors import InvalidSettingError, ModelBudgetExceededError
from threadbus.agents.model import Model, ModelSettings, Secret, TokenBudget

KEY = "sk-very-secret"


def test_settings_come_from_the_environment() -> None:
    """Each documented variable arrives."""
    settings = ModelSettings.from_env(
        {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1",
            "BUS_MODEL": "small",
            "BUS_MODEL_DATA_READER": "large",
            "BUS_COMPLETION_TIMEOUT": "7.5",
            "BUS_COMPLETION_DEADLINE": "60",
            "BUS_COMPLETION_RETRIES": "0",
            "BUS_COMPLETION_MAX_TOKENS": "500",
        }
    )

    assert settings == ModelSettings(
        model="small",
        agent_models={"DATA_READER": "large"},
        base_url="http://127.0.0.1:8000/v1",
        api_key=Secret(KEY),
        timeout=timedelta(seconds=7.5),
        deadline=timedelta(seconds=60),
        max_retries=0,
        max_output_tokens=500,
    )


def test_an_empty_environment_gives_the_defaults() -> None:
    """Variables that are empty count as not set."""
    empty = {"OPENAI_BASE_URL": "", "BUS_MODEL": " ", "BUS_COMPLETION_RETRIES": ""}

    assert ModelSettings.from_env(empty) == ModelSettings()


def test_an_agent_may_have_a_model_of_its_own() -> None:
    """The variable names the agent in upper case, with underscores."""
    settings = ModelSettings(model="small", agent_models={"DATA_READER": "large"})

    assert settings.model_for("data-reader") == "large"
    assert settings.model_for("planner") == "small"


def test_without_a_model_the_error_names_the_variables() -> None:
    """Nobody has to guess how a model is named."""
    with pytest.raises(InvalidSettingError, match=r"BUS_MODEL: is not set.*BUS_MODEL_<AGENT>"):
        ModelSettings().model_for("planner")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BUS_COMPLETION_TIMEOUT", "soon"),
        ("BUS_COMPLETION_TIMEOUT", "0"),
        ("BUS_COMPLETION_TIMEOUT", "nan"),
        ("BUS_COMPLETION_DEADLINE", "1e9"),
        ("BUS_COMPLETION_RETRIES", "-1"),
        ("BUS_COMPLETION_RETRIES", "21"),
        ("BUS_COMPLETION_RETRIES", "9" * 5000),
        ("BUS_COMPLETION_MAX_TOKENS", "0"),
        ("BUS_COMPLETION_MAX_TOKENS", "many"),
        ("OPENAI_BASE_URL", "127.0.0.1:8000"),
        ("OPENAI_BASE_URL", "ftp://host/v1"),
        ("OPENAI_BASE_URL", "http://host:99999/v1"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named_with_its_value(name: str, value: str) -> None:
    """The error has the variable, the value and what is expected."""
    with pytest.raises(InvalidSettingError) as caught:
        ModelSettings.from_env({name: value})

    assert caught.value.setting == name
    assert value[:20] in str(caught.value)


def test_a_password_in_an_address_that_cannot_be_used_is_not_shown() -> None:
    """Not even while complaining about it."""
    with pytest.raises(InvalidSettingError) as caught:
        ModelSettings(base_url="ftp://me:hunter2@host/v1")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("base_url", "server"),
    [
        ("", "api.openai.com"),
        ("http://127.0.0.1:8000/v1", "127.0.0.1:8000"),
        ("https://me:pass@models.example/v1", "models.example"),
        ("http://[::1]:8000/v1", "[::1]:8000"),
    ],
)
def test_a_server_is_named_by_its_host(base_url: str, server: str) -> None:
    """Messages name the host and port, never what else an address may hold."""
    assert ModelSettings(base_url=base_url).server == server


def test_a_key_is_never_shown() -> None:
    """Neither by repr nor by an encoder."""
    settings = ModelSettings(api_key=Secret(KEY), base_url="http://me:hunter2@host/v1")

    assert KEY not in repr(settings)
    assert "hunter2" not in repr(settings)
    assert KEY not in f"{settings.api_key}{settings.api_key!r}"
    with pytest.raises(TypeError):
        msgspec.json.encode(settings)


def test_a_secret_can_be_used() -> None:
    """It reveals itself when asked, hides itself in text, and survives pickling."""
    secret = Secret(KEY)

    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301 - our own bytes
    assert secret.reveal() == KEY
    assert secret.hide_in(f"bad key {KEY}!") == "bad key [key]!"
    assert Secret().hide_in("nothing") == "nothing"
    assert hash(secret) == hash(Secret(KEY))
    assert not Secret()


@pytest.mark.parametrize(
    "bad",
    [
        {"max_retries": 21},
        {"max_output_chars": 0},
        {"max_tool_calls": 0},
        {"max_output_tokens": 0},
        {"timeout": timedelta(0)},
        {"deadline": timedelta(days=2)},
    ],
)
def test_settings_made_by_hand_are_checked_too(bad: dict[str, object]) -> None:
    """The error names the field."""
    with pytest.raises(InvalidSettingError, match=next(iter(bad))):
        msgspec.structs.replace(ModelSettings(), **bad)


async def test_without_a_key_and_a_server_the_error_says_what_to_set() -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidSettingError, match=r"OPENAI_API_KEY.*OPENAI_BASE_URL"):
        async with Model(ModelSettings(model="small")):
            pass


def test_a_budget_counts_from_what_the_log_has() -> None:
    """What was used before counts, and what is used is added."""
    budget = TokenBudget(limit=100, used=60)
    budget.check()
    budget.add(30)

    assert (budget.used, budget.limit, budget.remaining) == (90, 100, 10)


def test_a_budget_that_is_used_up_refuses() -> None:
    """At the limit, with both figures."""
    budget = TokenBudget(limit=1_000, used=900)
    budget.add(150)

    with pytest.raises(ModelBudgetExceededError, match=r"1,050 of 1,000") as caught:
        budget.check()
    assert (caught.value.used, caught.value.budget) == (1_050, 1_000)
    assert budget.remaining == 0


def test_a_budget_without_a_limit_never_refuses() -> None:
    """It still counts."""
    budget = TokenBudget()
    budget.add(10**9)
    budget.check()

    assert (budget.used, budget.remaining) == (10**9, None)
