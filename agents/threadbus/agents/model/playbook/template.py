"""Templates: ``{{ tool.read_csv.json.total | thousands }}``, and nothing more clever.

An expression is a path into what was asked and what tools returned, with filters. A blank stands
inside each pair of braces, so that code with ``{{x}}`` in it is left alone. Nothing is evaluated.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from threadbus.schemas import nearest_names, shorten

_EXPRESSION: Final = re.compile(r"\{\{ +([^{}]+?) +\}\}")
_STEP: Final = re.compile(r'[\w-]+|"[^"]+"')
_PATH: Final = re.compile(rf"(?:{_STEP.pattern})(?:\.(?:{_STEP.pattern}))*")

Namespace: TypeAlias = Mapping[str, object]


class TemplateError(ValueError):
    """An expression is not one, or names what is not there."""

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__(expression, reason)
        self.expression = expression
        self.reason = reason

    def __str__(self) -> str:
        return f"{{{{ {shorten(self.expression)} }}}}: {self.reason}"


class Branch(ABC):
    """A value with named children that is text where it is shown itself."""

    @abstractmethod
    def child(self, name: str) -> object:
        """Return the child *name*.

        Raises:
            LookupError: there is none; the message says what there is.
        """

    @abstractmethod
    def __str__(self) -> str: ...


def check_template(template: str) -> None:
    """Check the form of every expression in *template*.

    Raises:
        TemplateError: one is not a path with known filters.
    """
    for match in _EXPRESSION.finditer(template):
        _parse(match.group(1))


def check_templates(value: object) -> None:
    """Check every string inside *value* as :func:`check_template` does."""
    match value:
        case str():
            check_template(value)
        case dict():
            for item in cast("dict[str, object]", value).values():
                check_templates(item)
        case list():
            for item in cast("list[object]", value):
                check_templates(item)
        case _:
            pass


def render(template: str, names: Namespace) -> str:
    """Fill in *template*.

    Raises:
        TemplateError: an expression names what is not there.
    """
    return _EXPRESSION.sub(lambda match: _as_text(_look_up(match.group(1), names)), template)


def render_value(value: object, names: Namespace) -> object:
    """Fill in every string inside a JSON *value*.

    A string that is one expression and nothing else becomes what the expression stands for, be it
    a number, a list or an object.

    Raises:
        TemplateError: an expression names what is not there.
    """
    match value:
        case str():
            whole = _EXPRESSION.fullmatch(value)
            if whole is None:
                return render(value, names)
            found = _look_up(whole.group(1), names)
            return str(found) if isinstance(found, Branch) else found
        case dict():
            items = cast("dict[str, object]", value).items()
            return {key: render_value(item, names) for key, item in items}
        case list():
            return [render_value(item, names) for item in cast("list[object]", value)]
        case _:
            return value


def _parse(expression: str) -> tuple[list[str], list[str]]:
    path, *filters = (part.strip() for part in expression.split("|"))
    if not _PATH.fullmatch(path):
        raise TemplateError(expression, "a path such as tool.read_csv.json.total is expected")
    for name in filters:
        if name not in _FILTERS:
            raise TemplateError(
                expression, f"there is no filter {name!r}; the filters are {', '.join(_FILTERS)}"
            )
    return [step.strip('"') for step in _STEP.findall(path)], filters


def _look_up(expression: str, names: Namespace) -> object:
    path, filters = _parse(expression)
    value: object = names
    seen = ""
    for step in path:
        try:
            value = _child(value, step)
        except LookupError as error:
            reason = f"{seen or 'the playbook'} has no {step!r}; {error.args[0]}"
            raise TemplateError(expression, reason) from error
        seen = f"{seen}.{step}" if seen else step
    for name in filters:
        try:
            value = _FILTERS[name](value)
        except ValueError as error:
            shown = shorten(_as_text(value))
            raise TemplateError(expression, f"{name} cannot be applied to {shown!r}") from error
    return value


def _child(value: object, name: str) -> object:
    match value:
        case Branch():
            return value.child(name)
        case Mapping():
            mapping = cast("Mapping[str, object]", value)
            if name in mapping:
                return mapping[name]
            raise LookupError(f"there is {known(mapping, name)}")
        case list():
            items = cast("list[object]", value)
            if name.isdecimal() and int(name) < len(items):
                return items[int(name)]
            raise LookupError(f"it is a list of {len(items)}, counted from 0")
        case _:
            raise LookupError(f"it is {shorten(_as_text(value), 40)!r}")


def known(names: Mapping[str, object], wanted: str) -> str:
    """Return the names there are, for a message; those most like *wanted* where there are many."""
    listed = list(names)
    if len(listed) > 12:
        near = nearest_names(wanted, listed, 5)
        return f"{', '.join(near or listed[:5])} and {len(listed) - len(near or listed[:5])} more"
    return ", ".join(listed) or "nothing"


def _as_text(value: object) -> str:
    match value:
        case str() | Branch():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()


def _thousands(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}"
    text = _as_text(value).strip()
    return f"{int(text):,}" if re.fullmatch(r"[+-]?\d{1,4000}", text) else f"{float(text):,}"


def _first_line(value: object) -> str:
    return _as_text(value).strip().partition("\n")[0].rstrip()


def _json(value: object) -> str:
    return msgspec.json.encode(str(value) if isinstance(value, Branch) else value).decode()


_FILTERS: Final[dict[str, Callable[[object], object]]] = {
    "first_line": _first_line,
    "json": _json,
    "lower": lambda value: _as_text(value).lower(),
    "thousands": _thousands,
    "trim": lambda value: _as_text(value).strip(),
    "upper": lambda value: _as_text(value).upper(),
}
