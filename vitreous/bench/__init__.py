"""How fast a model is, how much memory it takes, and what this machine could do at best; peers beside it."""
