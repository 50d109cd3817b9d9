"""`python -m muster` is the command line."""

from muster.cli.main import main

main()
