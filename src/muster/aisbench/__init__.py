"""AISBench packages: reads their configuration without executing it, makes packages, and runs them."""
