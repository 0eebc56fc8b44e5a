"""Peers behind one protocol: see `adapters.base` for the protocol, `adapters.registry` for the list."""
