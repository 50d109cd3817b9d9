"""Answers: how a run stands and what it wrote, as ModelArts tells it."""
