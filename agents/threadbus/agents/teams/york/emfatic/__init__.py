"""Emfatic, the textual notation of Ecore: read it, check it, and make an Ecore model of it.

:func:`check` reads a text and says every problem with its place; :func:`to_ecore` writes the model
as XMI, and :func:`to_mermaid` draws it for people. The notation is Eclipse's Emfatic, without
generics, which are refused with a message that says so.
"""

from threadbus.agents.teams.york.emfatic.checking import Checked, check
from threadbus.agents.teams.york.emfatic.drawing import to_mermaid
from threadbus.agents.teams.york.emfatic.ecore import to_ecore
from threadbus.agents.teams.york.emfatic.model import Package, Problem

__all__ = ["Checked", "Package", "Problem", "check", "to_ecore", "to_mermaid"]
