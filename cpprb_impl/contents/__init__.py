"""The rows of a buffer as arrays: for copies, pickles and files."""
