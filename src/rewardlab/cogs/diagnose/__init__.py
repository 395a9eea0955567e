"""What a policy really does: rollouts with checks, two policies side by side, audits of roles and resources."""
