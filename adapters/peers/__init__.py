"""The peers: one file, or one folder, for each library. `adapters.registry` lists them."""
