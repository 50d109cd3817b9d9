"""Configuration files of AISBench packages: reads and checks them without executing them, and makes job fields of them."""
