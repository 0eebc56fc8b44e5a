"""The first screen: a sentence for each kind of reader, and the heat map."""
