"""Control: how much two identical launches differ."""
