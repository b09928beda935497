"""Find an agent by ``module:name``: an Agent, or any ``run(task_desc) -> str``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from threadbus.agents.agent import Agent, from_callable
from threadbus.agents.errors import AgentLoadError


def load_agent(target: str, *, name: str = "") -> Agent:
    """Import the agent that *target* names; the working folder is looked at too.

    Args:
        target: ``module:name`` or ``path/to/file.py:name``; the name may be left out where it is
            ``agent``.
        name: the name to run it under, instead of its own.

    Raises:
        AgentLoadError: there is no such module or name, or it is no agent.
        InvalidNameError: *name* is outside the grammar.
    """
    module_name, _, attribute = target.partition(":")
    if module_name.endswith(".py") or "/" in module_name:
        module = _from_file(target, Path(module_name))
    else:
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            module = importlib.import_module(module_name)
        except Exception as error:
            raise AgentLoadError(target, f"{type(error).__name__}: {error}") from error
    found = module
    for part in (attribute or "agent").split("."):
        if not hasattr(found, part):
            raise AgentLoadError(target, f"module {module_name} has no {attribute or 'agent'!r}")
        found = getattr(found, part)
    if isinstance(found, Agent):
        return found.renamed(name) if name else found
    if callable(found):
        return from_callable(cast("Callable[[str], str]", found), name)
    raise AgentLoadError(target, f"{attribute!r} is a {type(found).__name__}, not an agent")


def _from_file(target: str, path: Path) -> object:
    if not path.is_file():
        raise AgentLoadError(target, f"there is no file {path}")
    # Its neighbours are importable from it, as they are when Python runs it.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AgentLoadError(target, f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise AgentLoadError(target, f"{type(error).__name__}: {error}") from error
    return module
