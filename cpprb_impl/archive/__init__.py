"""Reading and writing archives whose contents must not be trusted: npz, JSON, pickles of NumPy."""
