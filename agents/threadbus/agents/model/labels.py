"""What tells a playbook server apart, and tells it who asks."""

from __future__ import annotations

from typing import Final

AGENT_HEADER: Final = "X-Threadbus-Agent"
"""Request header with the name of the agent that asks."""

PLAYBOOK_HEADER: Final = "X-Threadbus-Playbook"
"""Response header of a playbook server."""

PLAYBOOK: Final = "playbook"
"""What a playbook server calls its model, and itself in ``system_fingerprint``."""

TRACE_HEADER: Final = "traceparent"
"""Request header with the W3C trace context of the turn that asks."""
