"""Starting runs and living with them: the Python API, used by the command line too."""
