"""Process-level helpers: the host's identity, fork safety, and a watchdog that cleans up after the process."""
