"""The application of `muster serve`: requests, accounts, the database, the data directory, serving."""
