"""Reports as HTML, Markdown, CSV, JSON and terminal text."""
