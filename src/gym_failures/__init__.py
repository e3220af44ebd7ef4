"""Say what failed in NeMo Gym, once, in one vocabulary, with its causes."""
