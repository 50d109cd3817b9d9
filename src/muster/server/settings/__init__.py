"""What the server runs with: the options of `muster serve`, and its settings as administrators see them."""
