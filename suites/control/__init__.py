"""Control: by how much two identical launches differ."""
