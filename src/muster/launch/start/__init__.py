"""From a loaded job to a started run: prepare, package, submit."""
