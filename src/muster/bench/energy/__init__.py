"""Power and energy from samples."""
