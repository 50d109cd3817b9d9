"""What the reference workloads share; labels, schedule, order and places need neither PyTorch nor NumPy's random state."""
