"""What is remembered: rollouts and replay, arrays in a pytree with one batch type."""
