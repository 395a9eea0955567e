"""rlhf-book's command lines as they stand, run by RewardLab."""
