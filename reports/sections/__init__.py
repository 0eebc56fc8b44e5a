"""The sections of the page, each a module with its templates beside it."""
