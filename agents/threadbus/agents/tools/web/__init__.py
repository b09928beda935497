"""The web for agents: search, fetch and read pages, follow links; bounded and screened."""

from threadbus.agents.tools.web.browsing import BROWSER_TIMES, browse
from threadbus.agents.tools.web.fetching import Fetched, Web
from threadbus.agents.tools.web.searching import Found, search
from threadbus.agents.tools.web.settings import WebSettings

__all__ = ["BROWSER_TIMES", "Fetched", "Found", "Web", "WebSettings", "browse", "search"]
