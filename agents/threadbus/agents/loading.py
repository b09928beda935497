"""Find an agent by ``module:name``: an Agent, or any ``run(task_desc) -> str``."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from threadbus.agents.agent import Agent, from_callable
from threadbus.agents.errors import AgentLoadError, NotAHandlerError


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
    folder = str(Path.cwd())
    if module_name.endswith(".py") or "/" in module_name:
        if folder not in sys.path:
            # Behind everything: the neighbours of the file come first.
            sys.path.append(folder)
        found = _from_file(target, Path(module_name))
    else:
        if folder not in sys.path:
            sys.path.insert(0, folder)
        found = _imported(target, lambda: importlib.import_module(module_name))
    attribute = attribute or "agent"
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise AgentLoadError(target, f"module {module_name} has no {attribute!r}")
        found = getattr(found, part)
    if isinstance(found, Agent):
        return found.renamed(name) if name else found
    if not callable(found) or isinstance(found, type):
        what = "a class" if isinstance(found, type) else f"a {type(found).__name__}"
        raise AgentLoadError(target, f"{attribute!r} is {what}, not an agent")
    try:
        return from_callable(cast("Callable[[str], str]", found), name)
    except NotAHandlerError as error:
        raise AgentLoadError(
            target, f"{attribute!r} cannot be called with the description of a task alone"
        ) from error


def _imported(target: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except (Exception, SystemExit) as error:
        # A script may end itself by sys.exit when it is imported.
        raise AgentLoadError(target, f"{type(error).__name__}: {error}") from error


def _from_file(target: str, path: Path) -> object:
    if not path.is_file():
        raise AgentLoadError(target, f"there is no file {path}")
    path = path.resolve()
    # A name of its own: a file json.py must not stand for the module that others import.
    name = f"threadbus_agent_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AgentLoadError(target, f"{path} is not a Python file")
    # Its neighbours are importable from it, as they are when Python runs it.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module, loader = importlib.util.module_from_spec(spec), spec.loader
    sys.modules[name] = module
    try:
        _imported(target, lambda: loader.exec_module(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module
