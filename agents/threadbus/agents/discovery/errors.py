"""What can go wrong when agents are looked for.

AgentError
└── DiscoveryError
    ├── MissingPackageError     what an extra installs is not there
    └── EmbeddingError          no usable vectors came back
"""

from __future__ import annotations

import importlib
from typing import Any

from threadbus.agents.errors import AgentError


class DiscoveryError(AgentError):
    """Agents could not be ranked."""


class MissingPackageError(DiscoveryError):
    """A package is not installed that an extra brings."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return (
            f"{self.package} is not installed: `pip install 'threadbus[{self.extra}]'` installs "
            "what this ranker needs"
        )


class EmbeddingError(DiscoveryError):
    """An embedding model gave no usable vectors."""

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(model, reason)
        self.model = model
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"no embeddings from {self.model}: {self.reason}; check OPENAI_BASE_URL, "
            "OPENAI_API_KEY and BUS_EMBEDDING_MODEL, or rank with BM25"
        )


def load(module: str, extra: str) -> Any:
    """Import a module of an extra when it is first needed.

    Raises:
        MissingPackageError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(error.name or module, extra) from error
