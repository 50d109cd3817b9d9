"""The client of `muster serve`: where this user is logged in, and requests to the server's API."""
