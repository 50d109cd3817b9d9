"""Runs whose devices idle: they are warned of, and stopped where their project says so."""
