"""Results in the formats of AISBench and MLPerf."""
