"""A checked package as an Ecore model, written as XMI by pyecore."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from threadbus.agents.teams.york.emfatic.model import (
    UNBOUNDED,
    Attribute,
    Bounds,
    ClassDef,
    Classifier,
    DataTypeDef,
    Element,
    EnumDef,
    MapEntryDef,
    Operation,
    Package,
    Primitive,
    Reference,
    TypeParameter,
    TypeRef,
)
from threadbus.agents.teams.york.emfatic.scope import BuiltInClass, Found, Owner, Scope


def to_ecore(package: Package) -> bytes:
    """Return a package as an ``.ecore`` file.

    Args:
        package: one that :func:`check` found nothing wrong with.
    """
    resources: Any = import_module("pyecore.resources")
    root = _Writer(package).write()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.ecore")
        resource = resources.ResourceSet().create_resource(resources.URI(str(path)))
        resource.append(root)
        resource.save()
        return path.read_bytes()


class _Writer:
    def __init__(self, package: Package) -> None:
        # pyecore has no types, and takes a while to import.
        self._ecore: Any = import_module("pyecore.ecore")
        # As Ecore has them; pyecore 0.15 would write the one as a link, and the other at all.
        self._ecore.EGenericType.eUpperBound.containment = True
        self._ecore.EGenericType.eLowerBound.containment = True
        self._ecore.ETypeParameter.eGenericType.transient = True
        self._package = package
        self._scope = Scope(package)
        self._made: dict[int, Any] = {}

    def write(self) -> Any:
        root = self._declare(self._package)
        for package in self._package.walk():
            for classifier in package.classifiers:
                if isinstance(classifier, ClassDef | DataTypeDef):
                    self._limit(classifier.type_parameters, classifier)
                if isinstance(classifier, ClassDef):
                    self._fill(classifier)
                elif isinstance(classifier, MapEntryDef):
                    self._fill_entry(classifier)
        self._join_opposites()
        return root

    def _declare(self, package: Package) -> Any:
        made = self._ecore.EPackage(package.name, nsURI=package.uri, nsPrefix=package.prefix)
        self._annotate(made, package)
        for classifier in package.classifiers:
            one = self._classifier(classifier)
            self._made[id(classifier)] = one
            self._annotate(one, classifier)
            made.eClassifiers.append(one)
        for inner in package.packages:
            made.eSubpackages.append(self._declare(inner))
        return made

    def _classifier(self, found: Classifier) -> Any:
        match found:
            case EnumDef():
                made = self._ecore.EEnum(found.name)
                for literal in found.literals:
                    one = self._ecore.EEnumLiteral(literal.name, literal.value)
                    made.eLiterals.append(one)
                return made
            case DataTypeDef():
                made = self._ecore.EDataType(found.name, instanceClassName=found.instance_class)
                made.serializable = found.is_serializable
                self._parameters(made, found.type_parameters)
                return made
            case MapEntryDef():
                return self._ecore.EClass(found.name)
            case ClassDef():
                made = self._ecore.EClass(found.name, abstract=found.is_abstract)
                made.interface = found.is_interface
                self._parameters(made, found.type_parameters)
                return made

    def _fill(self, found: ClassDef) -> None:
        made = self._made[id(found)]
        # Every class is an EObject, and pyecore cannot read that where it is said.
        supers = [one for one in found.supers if self._is_class(one, found)]
        if any(one.arguments for one in supers):
            # All of them here, as Eclipse has it.
            made.eGenericSuperTypes.extend(self._generic(one, found, None) for one in supers)
        else:
            made.eSuperTypes.extend(self._type(self._scope.target(one, found)) for one in supers)
        for feature in found.features():
            one = self._feature(feature, found)
            self._made[id(feature)] = one
            self._annotate(one, feature)
            made.eStructuralFeatures.append(one)
        for operation in found.operations:
            returned = operation.type
            one = self._ecore.EOperation(operation.name)
            # Before its parameters: pyecore makes Python code of an operation that is added, and
            # their names may be words of Python.
            made.eOperations.append(one)
            self._parameters(one, operation.type_parameters)
            self._limit(operation.type_parameters, found, operation)
            if returned is not None:
                self._give_type(one, returned, found, operation)
            for parameter in operation.parameters:
                taken = self._ecore.EParameter(parameter.name)
                self._give_type(taken, parameter.type, found, operation)
                one.eParameters.append(taken)
            for ref in operation.throws:
                one.eExceptions.append(self._type(self._scope.target(ref, found)))
            self._annotate(one, operation)

    def _fill_entry(self, found: MapEntryDef) -> None:
        made = self._made[id(found)]
        for name, ref in (("key", found.key), ("value", found.value)):
            target = self._scope.target(ref, found)
            is_class = isinstance(target, ClassDef | BuiltInClass | MapEntryDef)
            one = (self._ecore.EReference if is_class else self._ecore.EAttribute)(name)
            self._give_type(one, ref, found)
            made.eStructuralFeatures.append(one)

    def _feature(self, found: Attribute | Reference, owner: ClassDef) -> Any:
        said = found.modifiers
        if isinstance(found, Reference):
            made = self._ecore.EReference(found.name, containment=found.is_containment)
            if "resolve" in said:
                made.resolveProxies = said["resolve"]
        else:
            made = self._ecore.EAttribute(found.name)
            made.iD = said.get("id", False)
            if found.default is not None:
                made.defaultValueLiteral = (
                    found.default.rpartition(".")[2]
                    if isinstance(self._scope.target(found.type, owner), EnumDef)
                    else found.default
                )
        made.changeable = not said.get("readonly", False)
        made.volatile = said.get("volatile", False)
        made.transient = said.get("transient", False)
        made.unsettable = said.get("unsettable", False)
        made.derived = said.get("derived", False)
        made.unique = said.get("unique", True)
        made.ordered = said.get("ordered", True)
        self._give_type(made, found.type, owner)
        return made

    def _give_type(
        self, made: Any, ref: TypeRef, owner: Owner, operation: Operation | None = None
    ) -> None:
        target = self._scope.target(ref, owner, operation)
        if ref.arguments or isinstance(target, TypeParameter):
            made.eGenericType = self._generic(ref, owner, operation)
        else:
            made.eType = self._type(target)
        _give_bounds(made, ref.bounds)

    def _is_class(self, ref: TypeRef, owner: ClassDef) -> bool:
        return isinstance(self._scope.target(ref, owner), ClassDef)

    def _parameters(self, made: Any, found: tuple[TypeParameter, ...]) -> None:
        for parameter in found:
            one = self._made[id(parameter)] = self._ecore.ETypeParameter(parameter.name)
            made.eTypeParameters.append(one)

    def _limit(
        self, found: tuple[TypeParameter, ...], owner: Owner, operation: Operation | None = None
    ) -> None:
        for parameter in found:
            limits = [self._generic(limit, owner, operation) for limit in parameter.limits]
            self._made[id(parameter)].eBounds.extend(limits)

    def _generic(self, ref: TypeRef, owner: Owner, operation: Operation | None) -> Any:
        target = self._scope.target(ref, owner, operation)
        if isinstance(target, TypeParameter):
            return self._ecore.EGenericType(eTypeParameter=self._made[id(target)])
        made = self._ecore.EGenericType(eClassifier=self._type(target))
        for argument in ref.arguments:
            if argument.type is None:
                one = self._ecore.EGenericType()
            else:
                one = self._generic(argument.type, owner, operation)
            if argument.type is not None and argument.wildcard:
                limit, one = one, self._ecore.EGenericType()
                if argument.wildcard == "super":
                    one.eLowerBound = limit
                else:
                    one.eUpperBound = limit
            made.eTypeArguments.append(one)
        return made

    def _join_opposites(self) -> None:
        for package in self._package.walk():
            for found in package.classes():
                for reference in found.references:
                    target = self._scope.target(reference.type, found)
                    if reference.opposite is not None and isinstance(target, ClassDef):
                        made = self._made[id(reference)]
                        other = self._scope.reference(target, reference.opposite)
                        made.eOpposite = self._made[id(other)]
                        # pyecore 0.15 does not note that it is set, and then does not write it.
                        made._isset.add(self._ecore.EReference.eOpposite_)

    def _type(self, found: Found | None) -> Any:
        if isinstance(found, Primitive):
            return getattr(self._ecore, found.value)
        if isinstance(found, BuiltInClass):
            return self._ecore.EObject.eClass
        return self._made[id(found)]

    def _annotate(self, made: Any, found: Element) -> None:
        for annotation in found.annotations:
            if annotation.source == "namespace" and isinstance(found, Package):
                continue
            one = self._ecore.EAnnotation(annotation.source)
            for key, value in annotation.details.items():
                one.details[key] = value
            made.eAnnotations.append(one)


def _give_bounds(made: Any, bounds: Bounds) -> None:
    made.lowerBound = bounds.lower
    made.upperBound = -1 if bounds.upper == UNBOUNDED else bounds.upper
