"""How long an Ape-X training run takes, with each way of sharing its buffer."""
