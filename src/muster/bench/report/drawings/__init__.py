"""Charts of a report as data; templates turn them into SVG."""
