"""Numbers of a run over time, for charts: what ranks recorded and what was sampled of the machines, thinned and bounded."""
