"""The peers, with one file or folder per library. `adapters.registry` lists them."""
