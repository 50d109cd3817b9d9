"""Reports of results: a page, Markdown, CSV and the terminal, in English and Chinese."""
