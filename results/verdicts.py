"""What a comparison takes, for the plan that measures as for the report that judges."""

#: suite -> the peer to which others are compared.
REFERENCES = {
    "throughput": "cpprb",
    "latency": "cpprb",
    "apex": "cpprb[MP]",
    "sharing": "cpprb[MP]",
    "learning": "cpprb[MP]",
    "hosts": "cpprb[replay server]",
    "learners": "stable-baselines3[training]",
}
#: Of the reference in a window; with fewer calls, its rate is too uncertain to be a divisor.
FEWEST_CALLS = 1_000

#: Launches with which an interval is useful, and therefore the fewest for a verdict.
ENOUGH = 5
#: Code placement in memory alone changes a library's speed by up to 10%, in every launch (docs/measuring.md).
MATTERS = 1.1
