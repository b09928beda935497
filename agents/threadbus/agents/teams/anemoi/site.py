"""A small web site for the demonstration, served by the process that asks the question."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_RULES: Final = """\
<!doctype html><html lang="en"><head><title>Ferry subsidy: the rules of 2026</title></head><body>
<nav><a href="/">Town of Ostwick</a></nav>
<main><h1>Ferry subsidy: the rules of 2026</h1>
<p>The town pays the ferry a subsidy for each quarter in which it carried fewer than 40,000
passengers. Passengers are counted by the turnstiles; what was counted twice is taken off.</p>
<p>The council has changed these rules since they were published. The changes stand in the
<a href="/corrections.html">corrections of the rules</a> and go before what is said here.</p>
</main></body></html>
"""
_CORRECTIONS: Final = """\
<!doctype html><html lang="en"><head><title>Corrections of the ferry rules</title></head><body>
<main><h1>Corrections of the ferry rules</h1>
<p>Decided by the council on 17 March 2026: the limit of passengers in a quarter, below which the
subsidy is paid, is raised to 42,000. It holds from the second quarter of 2026 on.</p>
<p>Nothing else in the <a href="/rules.html">rules</a> is changed.</p>
</main></body></html>
"""
PAGES: Final = {"/rules.html": _RULES, "/corrections.html": _CORRECTIONS}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = PAGES.get(self.path)
        body = (page or "there is no such page").encode()
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in the base
        """Say nothing."""


def serve() -> str:
    """Serve the site on a free port of this machine until the process ends; return host:port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, name="threadbus.demo.site", daemon=True).start()
    return f"127.0.0.1:{server.server_address[1]}"
