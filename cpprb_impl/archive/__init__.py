"""Reading and writing archives with untrusted contents: npz, JSON, NumPy pickles."""
