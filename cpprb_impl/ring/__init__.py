"""Code that all buffers share: the native ring with its hooks, reading rows, and a process's state per stream."""
