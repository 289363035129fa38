"""Phase identification: a database of crystal structures, and what a pattern has in common with them."""
