"""Two runs side by side: their steps aligned, where they first differ, and by how much.

:func:`compare` is pure; :func:`write_diff` puts its result into lines.
"""

from threadbus.replay.diffing.align import align
from threadbus.replay.diffing.compare import Diff, Row, RowKind, Side, compare
from threadbus.replay.diffing.lines import View, write_diff

__all__ = ["Diff", "Row", "RowKind", "Side", "View", "align", "compare", "write_diff"]
