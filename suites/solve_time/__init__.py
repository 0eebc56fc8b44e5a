"""How long an Ape-X training takes, with each way of sharing its buffer."""
