"""What tables have in common: cells, the marks beside them, and the reasons why some have no figure."""
