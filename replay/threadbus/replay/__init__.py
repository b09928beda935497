"""What happened, from the log alone: the command ``busreplay``."""

__all__: list[str] = []
