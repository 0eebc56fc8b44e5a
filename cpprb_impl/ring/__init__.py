"""What all buffers share: the native ring with its hooks, the reading of rows, and what a process keeps per stream."""
