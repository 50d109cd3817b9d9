"""Pages of the server, rendered from templates."""
