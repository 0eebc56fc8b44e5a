"""Control: by how much two launches differ that are the same."""
