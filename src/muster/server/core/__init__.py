"""The application itself: requests, accounts, database, configuration."""
