"""The first screen: a sentence for each kind of reader, the heat map, the headlines."""
