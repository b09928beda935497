"""Every bound on what an event may hold, by name."""

from typing import Final

MAX_MENTIONS: Final = 16
"""Mentions in one event: the server fans out by one source for each count and position."""

MAX_NAME_CHARS: Final = 63
"""Characters of an agent name or a thread id."""

MAX_TYPE_CHARS: Final = 128
"""Characters of the name of an event's type."""

MAX_DISPLAY_NAME_CHARS: Final = 120
"""Characters of an agent's free-form display name."""

MAX_TITLE_CHARS: Final = 400
"""Characters of the title of a super-task or thread."""

MAX_WORD_CHARS: Final = 256
"""Characters of a label, or of the name of a file, a model, a tool or a media type."""

MAX_NOTE_CHARS: Final = 16 * 1024
"""Characters of free text beside the parts: a reason, a note, a summary, an error message."""

MAX_PARTS: Final = 64
"""Parts of one message, question, result or answer."""

MAX_PARTICIPANTS: Final = 256
"""Participants named by one event that opens a super-task or thread."""

MAX_PLAN_STEPS: Final = 256
"""Steps of one plan."""

MAX_REASONS: Final = 64
"""Reasons given for one plan, critique or vote; dissenting voices in one answer."""

MAX_WAKES: Final = 256
"""Mentions that were open where a super-task was forked."""

MAX_TRIGGERS: Final = 64
"""Assignments that one pause of a conversation waits for."""

MAX_SOURCES: Final = 256
"""Events that one answer names as what it rests on."""

MAX_LABELS: Final = 32
"""Labels of one super-task or agent."""

MAX_JSON_DEPTH: Final = 64
"""Levels of nesting in the JSON of one event; a part's data starts at the fifth."""

MAX_INTEGER: Final = 2**63 - 1
"""The greatest time, duration, size or count."""

MAX_INTEGER_DIGITS: Final = 4300
"""Digits of one integer in a data part."""

MAX_PART_BYTES_INLINE: Final = 64 * 1024
"""Bytes of one part kept inside an event; what is larger goes to the object store."""

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one event as JSON, before any server is asked; most servers take 1 MiB."""

MAX_SKILLS: Final = 64
"""Skills on one agent card."""

MAX_SKILL_ENTRIES: Final = 32
"""Tags of one skill, examples of one skill, and media types that an agent reads or writes."""

MAX_CARD_BYTES: Final = 64 * 1024
"""Bytes of one agent card as JSON."""

MAX_HEADER_BYTES: Final = 4 * 1024
"""Bytes that the headers of one event may take; reserved when a size is checked early."""
