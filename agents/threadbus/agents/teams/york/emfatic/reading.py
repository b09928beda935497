"""Text in, package out; a syntax error says where it is and what could stand there."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any, Final

import lark

from threadbus.agents.teams.york.emfatic.model import (
    UNBOUNDED,
    Annotation,
    Argument,
    Attribute,
    Bounds,
    ClassDef,
    Classifier,
    DataTypeDef,
    EnumDef,
    EnumLiteral,
    MapEntryDef,
    Operation,
    Package,
    Parameter,
    Place,
    Problem,
    Reference,
    TypeParameter,
    TypeRef,
)
from threadbus.agents.teams.york.emfatic.refusing import normal, refused
from threadbus.agents.teams.york.emfatic.wording import wrong_character, wrong_token

MAX_ELEMENTS: Final = 5_000
"""Packages and classifiers of one text, and features of all its classes."""

_MAX_DEPTH: Final = 16
_MAX_ARGUMENT_DEPTH: Final = 8
_MAX_TYPE_PARAMETERS: Final = 32
_MAX_LIMITS: Final = 16
_MOST: Final = 2**31 - 1


def read(text: str) -> Package | Problem:
    """Read one text.

    Args:
        text: of any size; what is over a limit, or holds what cannot be seen, is a problem.

    Returns:
        The package, or the first thing that breaks the grammar.
    """
    text = normal(text)
    problem = refused(text)
    if problem is not None:
        return problem
    try:
        tree = _parser().parse(text)
        return _Builder().package_of(tree)
    except lark.UnexpectedToken as error:
        return wrong_token(text, error)
    except lark.UnexpectedCharacters as error:
        return wrong_character(text, error)
    except _TooDeepError as error:
        message = f"{error.what} are nested deeper than {error.limit}; flatten them"
        return Problem(error.place, message, "size")
    except _TooManyError as error:
        message = f"there are more than {error.limit:,} {error.what}; {error.way_out}"
        return Problem(error.place, message, "size")


class _TooDeepError(Exception):
    def __init__(self, place: Place, what: str, limit: int) -> None:
        super().__init__(place, what, limit)
        self.place = place
        self.what = what
        self.limit = limit


class _TooManyError(Exception):
    def __init__(
        self, place: Place, what: str, limit: int, way_out: str = "split the package"
    ) -> None:
        super().__init__(place, what, limit, way_out)
        self.place = place
        self.what = what
        self.limit = limit
        self.way_out = way_out


@functools.cache
def _parser() -> Any:
    grammar = (files(__package__ or "") / "grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _place(tree: Any) -> Place:
    return Place(tree.meta.line, tree.meta.column)


def _children(tree: Any, rule: str) -> list[Any]:
    return [child for child in tree.children if isinstance(child, lark.Tree) and child.data == rule]


def _unquoted(token: str) -> str:
    """Take the quotes off; a backslash keeps what follows, and n and t are what they are."""
    text: list[str] = []
    after = iter(token[1:-1])
    for char in after:
        if char == "\\":
            char = {"n": "\n", "t": "\t", "r": "\r"}.get(escaped := next(after, ""), escaped)
        text.append(char)
    return "".join(text)


class _Builder:
    """Makes our own data of the parser's tree."""

    def __init__(self) -> None:
        self._declared = 0
        self._features = 0

    def package_of(self, tree: Any) -> Package:
        annotations, name, *rest = tree.children
        package = self._package(annotations, name, _only(rest, "declaration"), depth=1)
        package.imports = tuple(_unquoted(one.children[0]) for one in _only(rest, "import_"))
        return package

    def _package(self, annotations: Any, name: Any, declarations: Any, depth: int) -> Package:
        package = Package(
            name=_name(name), place=_place(name), annotations=_annotations(annotations)
        )
        for declaration in declarations:
            noted, declared = declaration.children
            self._declared += 1
            if self._declared > MAX_ELEMENTS:
                raise _TooManyError(_place(declared), "classes and packages", MAX_ELEMENTS)
            if declared.data == "subpackage":
                inner, *found = declared.children
                if depth >= _MAX_DEPTH:
                    raise _TooDeepError(_place(inner), "packages", _MAX_DEPTH)
                package.packages.append(self._package(noted, inner, found, depth + 1))
            else:
                package.classifiers.append(getattr(self, f"_{declared.data}")(declared, noted))
        return package

    def _class_(self, tree: Any, noted: Any) -> Classifier:
        kind, name, parameters, instance, extends, *features = tree.children
        words = {str(token) for token in kind.children if token is not None}
        found = ClassDef(
            name=_name(name),
            place=_place(name),
            annotations=_annotations(noted),
            is_abstract="abstract" in words or "interface" in words,
            is_interface="interface" in words,
            supers=() if extends is None else tuple(_generic(one) for one in extends.children[1:]),
            type_parameters=_type_parameters(parameters),
            instance_class=None if instance is None else _unquoted(instance),
        )
        for feature in features:
            annotations, declared = feature.children
            self._features += 1
            if self._features > MAX_ELEMENTS:
                raise _TooManyError(_place(declared), "features", MAX_ELEMENTS)
            match declared.data:
                case "attribute":
                    found.attributes.append(_attribute(declared, annotations))
                case "reference":
                    found.references.append(_reference(declared, annotations))
                case _:
                    found.operations.append(_operation(declared, annotations))
        return found

    def _enum_(self, tree: Any, noted: Any) -> Classifier:
        name, *literals = tree.children
        found: list[EnumLiteral] = []
        following = 0
        for literal in literals:
            annotations, label, value = literal.children
            number = following if value is None else _int(value)
            following = number + 1
            found.append(
                EnumLiteral(
                    name=_name(label),
                    place=_place(label),
                    annotations=_annotations(annotations),
                    value=number,
                )
            )
        return EnumDef(
            name=_name(name),
            place=_place(name),
            annotations=_annotations(noted),
            literals=tuple(found),
        )

    def _datatype(self, tree: Any, noted: Any) -> Classifier:
        name, java = _children(tree, "name")[0], _children(tree, "java_name")[0]
        words = {one.type: str(one) for one in tree.children if isinstance(one, lark.Token)}
        return DataTypeDef(
            name=_name(name),
            place=_place(name),
            annotations=_annotations(noted),
            instance_class=_java_name(java) + words.get("ARRAY", ""),
            is_serializable="TRANSIENT" not in words,
            type_parameters=_type_parameters(next(iter(_children(tree, "type_parameters")), None)),
        )

    def _mapentry(self, tree: Any, noted: Any) -> Classifier:
        name, key, value = tree.children
        return MapEntryDef(
            name=_name(name),
            place=_place(name),
            annotations=_annotations(noted),
            key=_type(key),
            value=_type(value),
        )


def _only(children: list[Any], rule: str) -> list[Any]:
    return [child for child in children if child.data == rule]


def _name(tree: Any) -> str:
    return str(tree.children[0]).removeprefix("~")


def _java_name(tree: Any) -> str:
    return ".".join(str(token) for token in tree.children)


def _int(digits: str) -> int:
    """Return a whole number, or one that is over every limit where it has too many digits."""
    return int(digits) if len(digits) <= len(str(_MOST)) + 1 else 10 * _MOST


def _named(tree: Any) -> TypeRef:
    return TypeRef(".".join(_name(part) for part in tree.children), _place(tree))


def _type(tree: Any) -> TypeRef:
    generic, multiplicity = tree.children
    return _generic(generic, _bounds(multiplicity))


def _generic(tree: Any, bounds: Bounds = Bounds(), depth: int = 1) -> TypeRef:  # noqa: B008 -- frozen
    name, arguments = tree.children
    if depth > _MAX_ARGUMENT_DEPTH:
        raise _TooDeepError(_place(tree), "type arguments", _MAX_ARGUMENT_DEPTH)
    given = () if arguments is None else tuple(_argument(one, depth) for one in arguments.children)
    named = _named(name)
    return TypeRef(named.name, named.place, bounds, given)


def _argument(tree: Any, depth: int) -> Argument:
    if tree.data == "generic":
        return Argument(_place(tree), _generic(tree, depth=depth + 1))
    _, word, limit = tree.children
    if limit is None:
        return Argument(_place(tree), None)
    return Argument(_place(tree), _generic(limit, depth=depth + 1), str(word))


def _type_parameters(tree: Any) -> tuple[TypeParameter, ...]:
    found: list[TypeParameter] = []
    for one in () if tree is None else tree.children:
        name, _, *limits = one.children
        if len(found) >= _MAX_TYPE_PARAMETERS:
            raise _TooManyError(_place(name), "type parameters", _MAX_TYPE_PARAMETERS, "use fewer")
        if len(limits) > _MAX_LIMITS:
            raise _TooManyError(_place(name), "limits of a type", _MAX_LIMITS, "use fewer")
        kept = tuple(_generic(limit) for limit in limits if limit is not None)
        found.append(TypeParameter(name=_name(name), place=_place(name), limits=kept))
    return tuple(found)


def _bounds(tree: Any) -> Bounds:
    if tree is None:
        return Bounds()
    inner = tree.children[0]
    if inner is None:
        return Bounds(0, UNBOUNDED)
    first, second = [*inner.children, None][:2]
    match str(first):
        case "*":
            return Bounds(0, UNBOUNDED)
        case "+":
            return Bounds(1, UNBOUNDED)
        case "?":
            return Bounds(0, 1)
        case number:
            lower = _int(number)
    if second is None:
        return Bounds(lower, lower)
    return Bounds(lower, UNBOUNDED if str(second) == "*" else _int(second))


def _annotations(tree: Any) -> tuple[Annotation, ...]:
    found: list[Annotation] = []
    for annotation in tree.children:
        source, *details = annotation.children
        said = {
            _key(detail.children[0]): _unquoted(detail.children[1])
            for detail in details
            if detail is not None
        }
        found.append(Annotation(_key(source), said))
    return tuple(found)


def _key(item: Any) -> str:
    return _unquoted(item) if isinstance(item, lark.Token) else _java_name(item)


def _modifiers(tree: Any) -> dict[str, bool]:
    return {str(one.children[1]): one.children[0] is None for one in _children(tree, "modifier")}


def _default(tree: Any) -> str | None:
    if tree is None:
        return None
    value: Any = tree.children[0].children[0]
    if hasattr(value, "children"):
        return ".".join(_name(part) for part in value.children)
    return _unquoted(value) if value.type in {"STRING", "CHAR"} else str(value)


def _attribute(tree: Any, noted: Any) -> Attribute:
    type_, name, default = tree.children[-3:]
    return Attribute(
        name=_name(name),
        place=_place(name),
        annotations=_annotations(noted),
        type=_type(type_),
        default=_default(default),
        modifiers=_modifiers(tree),
    )


def _reference(tree: Any, noted: Any) -> Reference:
    kind, type_, opposite, name, default = tree.children[-5:]
    return Reference(
        name=_name(name),
        place=_place(name),
        annotations=_annotations(noted),
        type=_type(type_),
        is_containment=str(kind) == "val",
        opposite=None if opposite is None else _name(opposite.children[0]),
        default=_default(default),
        modifiers=_modifiers(tree),
    )


def _operation(tree: Any, noted: Any) -> Operation:
    children = [child for child in tree.children if getattr(child, "data", "") != "modifier"]
    parameters, returned, name, *rest = children
    throws = next((one for one in rest if getattr(one, "data", "") == "throws"), None)
    return Operation(
        name=_name(name),
        place=_place(name),
        annotations=_annotations(noted),
        type=None if isinstance(returned, lark.Token) else _type(returned),
        parameters=tuple(
            Parameter(
                name=_name(one.children[2]),
                place=_place(one.children[2]),
                annotations=_annotations(one.children[0]),
                type=_type(one.children[1]),
            )
            for one in rest
            if getattr(one, "data", "") == "parameter"
        ),
        throws=() if throws is None else tuple(_named(one) for one in throws.children),
        type_parameters=_type_parameters(parameters),
        modifiers=_modifiers(tree),
    )
