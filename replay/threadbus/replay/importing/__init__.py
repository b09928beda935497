"""Logs of other systems as runs of this one, so that every form of ``busreplay`` can show them.

:func:`import_file` returns the runs of a file. What was said, by whom and in which order is kept;
labels that a benchmark puts beside a run are not.
"""

from threadbus.replay.importing.building import ImportedRun
from threadbus.replay.importing.reading import ImportFormat, detect, import_file

__all__ = ["ImportFormat", "ImportedRun", "detect", "import_file"]
