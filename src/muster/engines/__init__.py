"""Engines start supervisors and agents: one package each, with a submitting side and a node side."""
