"""What a verdict takes, for the plan that measures as for the report that judges."""

#: Launches with which an interval is useful, and therefore the fewest for a verdict.
ENOUGH = 5
#: Code placement in memory alone changes a library's speed by up to 10%, in every launch (docs/measuring.md).
MATTERS = 1.1
