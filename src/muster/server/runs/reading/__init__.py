"""Reading runs: lists, histories, logs, files, and what is searched in them."""
