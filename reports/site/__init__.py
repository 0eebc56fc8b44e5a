"""One HTML file to look figures up in: all committed records and the user's own runs. It loads nothing else."""
