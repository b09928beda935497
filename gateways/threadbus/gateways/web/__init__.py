"""What every gateway over HTTP needs: a server, limits, and screened addresses.

Import from the modules: each of them needs libraries that only some gateways install.
"""
