"""The routes of version 2 of the API."""
