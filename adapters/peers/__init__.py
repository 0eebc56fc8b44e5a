"""The peers, with one file or folder per library. `adapters.catalog` lists them."""
