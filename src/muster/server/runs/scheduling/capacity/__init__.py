"""What pools have, who holds it until when, and what is kept for whom: the books of one pass."""
