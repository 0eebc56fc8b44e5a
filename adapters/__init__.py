"""Peers behind one protocol: see `adapters.base` for the protocol, `adapters.catalog` for the list."""
