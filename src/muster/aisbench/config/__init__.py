"""Configuration files of AISBench packages, read without executing them."""
