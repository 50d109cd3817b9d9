"""Pages of projects, of administrators, and of the own account."""
