"""The settings of the embedded server and the configuration file made of them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadbus.bus.server.settings import ServerSettings, render_config, server_url
from threadbus.bus.server_errors import InvalidServerSettingError


def _config(settings: ServerSettings, port: int = 0) -> dict[str, Any]:
    data = Path("/data")
    text = render_config(
        settings, host="::1", port=port, data=data, log=data / "log", ports=data / "ports"
    )
    config: dict[str, Any] = json.loads(text)
    return config


def test_what_is_not_set_is_left_to_the_server() -> None:
    """Stores, sync and monitoring are absent by default; the limit on consumers is not."""
    config = _config(ServerSettings())

    assert config["jetstream"] == {
        "store_dir": "/data",
        "limits": {"default_max_consumers": 10_000},
    }
    assert config["port"] == -1
    assert config["max_payload"] == 1024 * 1024
    assert "http" not in config


def test_what_is_set_is_written() -> None:
    """Every setting reaches the file in the server's own words."""
    config = _config(
        ServerSettings(
            name="mine",
            monitor_port=8222,
            max_payload_bytes=2048,
            max_memory_store_bytes=5,
            max_file_store_bytes=6,
            max_consumers=7,
            sync_interval=timedelta(seconds=1.5),
        ),
        port=4222,
    )

    assert config["jetstream"] == {
        "store_dir": "/data",
        "limits": {"default_max_consumers": 7},
        "max_memory_store": 5,
        "max_file_store": 6,
        "sync_interval": "1500ms",
    }
    assert config["server_name"] == "mine"
    assert config["http"] == "[::1]:8222"
    assert config["port"] == 4222
    assert config["max_payload"] == 2048


def test_always_syncing_and_a_free_monitoring_port_have_their_own_words() -> None:
    """sync_interval "always" and monitor_port 0 are what the server calls so."""
    config = _config(ServerSettings(sync_interval="always", monitor_port=0))

    assert config["jetstream"]["sync_interval"] == "always"
    assert config["http"] == "[::1]:-1"


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"name": ""}, "name"),
        ({"name": "two words"}, "name"),
        ({"name": 'x"'}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"monitor_port": -1}, "monitor_port"),
        ({"monitor_port": 65_536}, "monitor_port"),
        ({"max_payload_bytes": 1023}, "max_payload_bytes"),
        ({"max_payload_bytes": 64 * 1024 * 1024 + 1}, "max_payload_bytes"),
        ({"max_memory_store_bytes": 0}, "max_memory_store_bytes"),
        ({"max_file_store_bytes": -1}, "max_file_store_bytes"),
        ({"max_consumers": 0}, "max_consumers"),
        ({"sync_interval": timedelta(0)}, "sync_interval"),
        ({"sync_interval": timedelta(hours=2)}, "sync_interval"),
    ],
)
def test_a_setting_outside_its_bounds_is_refused(settings: dict[str, Any], setting: str) -> None:
    """The error names the setting, its value and the bounds."""
    with pytest.raises(InvalidServerSettingError) as caught:
        ServerSettings(**settings)

    assert caught.value.setting == setting
    assert caught.value.rule in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "nats://127.0.0.1:1"),
        ("0.0.0.0", "nats://127.0.0.1:1"),  # noqa: S104 - the point
        ("::", "nats://[::1]:1"),
        ("fe80::1", "nats://[fe80::1]:1"),
        ("localhost", "nats://localhost:1"),
    ],
)
def test_a_url_is_one_to_connect_to(host: str, url: str) -> None:
    """A wildcard becomes the loopback, and IPv6 gets its brackets."""
    assert server_url(host, 1) == url
