"""Training runs over the hosts of a Ray cluster, with the same learner, explorers and evaluator as on one machine."""
