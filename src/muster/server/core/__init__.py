"""The application: requests, tokens, the database, the data directory, serving."""
