"""Pages of runs, which people know as jobs: home, the list, one job."""
