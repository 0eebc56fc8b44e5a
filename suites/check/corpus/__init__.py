"""Published faults of replay buffers, each with the release that had it and the one that fixed it (releases.toml)."""
