"""Whether one revision is slower than another: pairs, evidence, rules, verdict."""
