"""What answers about runs look like, for the OpenAPI document."""
