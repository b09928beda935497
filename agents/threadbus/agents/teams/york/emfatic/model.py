"""What an Emfatic text says, as data, with the place of each thing in the text."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

UNBOUNDED: Final = -1


class Place(msgspec.Struct, frozen=True):
    """Where something stands, both counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a text."""

    place: Place
    message: str
    """What is wrong, and what would be right."""
    rule: str
    """Which rule it breaks: ``syntax``, ``type``, ``name``, ``containment``, ``opposite``…"""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class Bounds(msgspec.Struct, frozen=True):
    """How many values a feature has."""

    lower: int = 0
    upper: int = 1
    """:data:`UNBOUNDED` for any number."""

    @property
    def is_many(self) -> bool:
        """Whether there may be more than one."""
        return self.upper == UNBOUNDED or self.upper > 1

    def __str__(self) -> str:
        upper = "*" if self.upper == UNBOUNDED else str(self.upper)
        return upper if str(self.lower) == upper else f"{self.lower}..{upper}"


class TypeRef(msgspec.Struct, frozen=True):
    """The use of a type."""

    name: str
    place: Place
    bounds: Bounds = Bounds()
    arguments: tuple[Argument, ...] = ()
    """What stands in ``<…>`` behind it."""


class Argument(msgspec.Struct, frozen=True):
    """What a type parameter stands for where a generic type is used."""

    place: Place
    type: TypeRef | None
    """None for the wildcard ``?`` alone."""
    wildcard: str = ""
    """``extends`` or ``super`` where a wildcard is limited by *type*; empty otherwise."""


class Annotation(msgspec.Struct, frozen=True):
    """Something said about an element for tools."""

    source: str
    details: dict[str, str]


class Element(msgspec.Struct, kw_only=True):
    """Anything with a name."""

    name: str
    place: Place
    annotations: tuple[Annotation, ...] = ()


class TypeParameter(Element, kw_only=True):
    """A type that is given where a generic class, data type or operation is used."""

    limits: tuple[TypeRef, ...] = ()
    """What it has to extend."""


class Parameter(Element, kw_only=True):
    """A parameter of an operation."""

    type: TypeRef


class Operation(Element, kw_only=True):
    """An operation of a class."""

    type: TypeRef | None = None
    """What it returns; nothing for ``void``."""
    parameters: tuple[Parameter, ...] = ()
    throws: tuple[TypeRef, ...] = ()
    modifiers: dict[str, bool] = {}
    type_parameters: tuple[TypeParameter, ...] = ()


class Attribute(Element, kw_only=True):
    """A value of a class."""

    type: TypeRef
    default: str | None = None
    modifiers: dict[str, bool] = {}
    """Modifier → false where it was negated by ``!``."""


class Reference(Element, kw_only=True):
    """A link of a class to another."""

    type: TypeRef
    is_containment: bool
    opposite: str | None = None
    default: str | None = None
    modifiers: dict[str, bool] = {}


class ClassDef(Element, kw_only=True):
    """A class or an interface."""

    is_abstract: bool = False
    is_interface: bool = False
    supers: tuple[TypeRef, ...] = ()
    attributes: list[Attribute] = []
    references: list[Reference] = []
    operations: list[Operation] = []
    instance_class: str | None = None
    type_parameters: tuple[TypeParameter, ...] = ()

    def features(self) -> Iterator[Attribute | Reference]:
        """Return the attributes, then the references."""
        yield from self.attributes
        yield from self.references


class EnumLiteral(Element, kw_only=True):
    """A value of an enumeration."""

    value: int


class EnumDef(Element, kw_only=True):
    """An enumeration."""

    literals: tuple[EnumLiteral, ...]


class DataTypeDef(Element, kw_only=True):
    """A type of values that is written in Java."""

    instance_class: str
    is_serializable: bool = True
    type_parameters: tuple[TypeParameter, ...] = ()


class MapEntryDef(Element, kw_only=True):
    """The class of a map's entries."""

    key: TypeRef
    value: TypeRef


Classifier = ClassDef | EnumDef | DataTypeDef | MapEntryDef


class Package(Element, kw_only=True):
    """A package with what it declares."""

    imports: tuple[str, ...] = ()
    classifiers: list[Classifier] = []
    packages: list[Package] = []

    @property
    def uri(self) -> str:
        """Its namespace, as annotated, or a name made from its own."""
        return self._namespace("uri", f"http://{self.name}/1.0")

    @property
    def prefix(self) -> str:
        """Its prefix, as annotated, or its name."""
        return self._namespace("prefix", self.name)

    def classes(self) -> Iterator[ClassDef]:
        """Return the classes of this package, without those of packages in it."""
        for classifier in self.classifiers:
            if isinstance(classifier, ClassDef):
                yield classifier

    def walk(self) -> Iterator[Package]:
        """Return this package and all below it."""
        yield self
        for package in self.packages:
            yield from package.walk()

    def _namespace(self, key: str, default: str) -> str:
        for annotation in self.annotations:
            if annotation.source == "namespace" and key in annotation.details:
                return annotation.details[key]
        return default


class Primitive(StrEnum):
    """The types that every text knows, by the Ecore type that each is."""

    BOOLEAN = "EBoolean"
    BOOLEAN_OBJECT = "EBooleanObject"
    BYTE = "EByte"
    BYTE_ARRAY = "EByteArray"
    BYTE_OBJECT = "EByteObject"
    CHAR = "EChar"
    CHARACTER_OBJECT = "ECharacterObject"
    DATE = "EDate"
    DOUBLE = "EDouble"
    DOUBLE_OBJECT = "EDoubleObject"
    FLOAT = "EFloat"
    FLOAT_OBJECT = "EFloatObject"
    INT = "EInt"
    INTEGER_OBJECT = "EIntegerObject"
    JAVA_OBJECT = "EJavaObject"
    LONG = "ELong"
    LONG_OBJECT = "ELongObject"
    SHORT = "EShort"
    SHORT_OBJECT = "EShortObject"
    STRING = "EString"
    BIG_DECIMAL = "EBigDecimal"
    BIG_INTEGER = "EBigInteger"


JAVA_PRIMITIVES: Final = {
    Primitive.BOOLEAN: "Boolean",
    Primitive.BYTE: "Byte",
    Primitive.CHAR: "Character",
    Primitive.DOUBLE: "Double",
    Primitive.FLOAT: "Float",
    Primitive.INT: "Integer",
    Primitive.LONG: "Long",
    Primitive.SHORT: "Short",
}
"""Types that no type argument may be → the one that may."""

BUILT_IN: Final[dict[str, Primitive]] = {
    "boolean": Primitive.BOOLEAN,
    "Boolean": Primitive.BOOLEAN_OBJECT,
    "byte": Primitive.BYTE,
    "Byte": Primitive.BYTE_OBJECT,
    "char": Primitive.CHAR,
    "Character": Primitive.CHARACTER_OBJECT,
    "Date": Primitive.DATE,
    "double": Primitive.DOUBLE,
    "Double": Primitive.DOUBLE_OBJECT,
    "float": Primitive.FLOAT,
    "Float": Primitive.FLOAT_OBJECT,
    "int": Primitive.INT,
    "Integer": Primitive.INTEGER_OBJECT,
    "Object": Primitive.JAVA_OBJECT,
    "long": Primitive.LONG,
    "Long": Primitive.LONG_OBJECT,
    "short": Primitive.SHORT,
    "Short": Primitive.SHORT_OBJECT,
    "String": Primitive.STRING,
    "java.math.BigDecimal": Primitive.BIG_DECIMAL,
    "java.math.BigInteger": Primitive.BIG_INTEGER,
    **{f"ecore.{primitive.value}": primitive for primitive in Primitive},
    **{primitive.value: primitive for primitive in Primitive},
}
"""Name in a text → the type of Ecore that it stands for."""

BUILT_IN_CLASSES: Final = frozenset({"ecore.EObject", "EObject"})
"""Classes that every text knows."""
