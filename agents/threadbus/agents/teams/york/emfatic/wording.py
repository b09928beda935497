"""What is said of a text that breaks the grammar: where, what is there, and what could be."""

from __future__ import annotations

from typing import Any, Final

from threadbus.agents.teams.york.emfatic.model import Place, Problem
from threadbus.schemas import shorten

_MAX_EXPECTED: Final = 8
_WORDS: Final = {
    "NAME": "a name",
    "ESCAPED": "",
    "STRING": "a text in double quotes",
    "INT": "a number",
    "SIGNED_INT": "a number",
    "SIGNED_NUMBER": "a number",
    "CHAR": "a character in single quotes",
    "JAVA_NAME": "a Java class name",
    "BOOLEAN": "true or false",
    "MODIFIER": "a modifier",
    "NOT": "",
    "LPAR": "(",
    "RPAR": ")",
    "LBRACE": "{",
    "RBRACE": "}",
    "LSQB": "[",
    "RSQB": "]",
    "SEMICOLON": ";",
    "COLON": ":",
    "COMMA": ",",
    "EQUAL": "=",
    "HASH": "#",
    "AT": "@",
    "ARRAY": "[]",
    "DOT": ".",
    "LESSTHAN": "<",
    "MORETHAN": ">",
    "AMPERSAND": "&",
    "ANY": "*",
    "SOME": "+",
    "OPTIONAL": "?",
    "__ANON_0": "..",
    "__ANON_1": "->",
    "$END": "the end of the text",
}


def wrong_token(text: str, error: Any) -> Problem:
    """Say what stands where it cannot."""
    if error.token.type == "$END":
        # As the parser counts them: other separators of Unicode begin no line here.
        lines = text.split("\n")
        place, found = Place(len(lines), len(lines[-1]) + 1), "the text ends"
    else:
        place = Place(error.line, error.column)
        found = f"there is {shorten(str(error.token), 40)!r}"
    return _not_there(place, found, error.accepts or error.expected)


def wrong_character(text: str, error: Any) -> Problem:
    """Say which character begins nothing that could stand there."""
    place = Place(error.line, error.column)
    if text.startswith("/*", error.pos_in_stream):
        return Problem(place, "this comment is never closed; end it with */", "syntax")
    if error.char == '"':
        message = "this text in double quotes does not end in its line; close it with another"
        if "STRING" in (error.allowed or ()):
            return Problem(place, message, "syntax")
    return _not_there(place, f"there is {error.char!r}", error.allowed or set())


def _not_there(place: Place, found: str, terminals: set[str]) -> Problem:
    expected = _expected(terminals)
    wanted = f"; expected {expected}" if expected else ""
    return Problem(place, f"{found} where it cannot be{wanted}", "syntax")


def _expected(terminals: set[str]) -> str:
    words = sorted({_WORDS.get(terminal, terminal.lower()) for terminal in terminals} - {""})
    shown = [word if " " in word else f"'{word}'" for word in words[:_MAX_EXPECTED]]
    more = len(words) - len(shown)
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown) + (
        f" or {more} more" if more else ""
    )
