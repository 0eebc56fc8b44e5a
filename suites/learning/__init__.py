"""How long an Ape-X needs to learn, with each way of sharing its buffer."""
