"""``python -m threadbus.agents.cli`` is the command ``bus``."""

from threadbus.agents.cli import main

if __name__ == "__main__":
    main()
