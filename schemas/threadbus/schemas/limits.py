"""Every bound on what an event may hold, by name."""

from typing import Final

MAX_MENTIONS: Final = 16
"""Mentions in one event: the server fans out by one source for each count and position."""

MAX_NAME_CHARS: Final = 63
"""Characters of an agent name or a thread id."""

MAX_DISPLAY_NAME_CHARS: Final = 120
"""Characters of an agent's free-form display name."""

MAX_TITLE_CHARS: Final = 400
"""Characters of the title of a super-task or thread."""

MAX_PARTS: Final = 64
"""Parts of one message, question, result or answer."""

MAX_PARTICIPANTS: Final = 256
"""Participants named by one event that opens a super-task or thread."""

MAX_JSON_DEPTH: Final = 64
"""Levels of nesting in the JSON of one event."""

MAX_PART_BYTES_INLINE: Final = 64 * 1024
"""Bytes of one part kept inside an event; what is larger goes to the object store."""

MAX_SKILLS: Final = 64
"""Skills on one agent card."""

MAX_CARD_BYTES: Final = 64 * 1024
"""Bytes of one agent card as JSON."""

MAX_HEADER_BYTES: Final = 4 * 1024
"""Bytes that the headers of one event may take; reserved when a size is checked early."""
