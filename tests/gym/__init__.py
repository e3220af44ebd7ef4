"""What is seen of a real NeMo Gym."""
