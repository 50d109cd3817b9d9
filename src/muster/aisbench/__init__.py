"""Packages of AISBench: reading their configuration, making them, and running them. It executes nothing that it reads."""
