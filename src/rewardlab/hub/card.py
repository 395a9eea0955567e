"""The dataset card of a hub: what it holds and how to use it, with the head that Hugging Face reads."""

from __future__ import annotations

HEAD = """---
license: apache-2.0
pretty_name: RewardLab benchmark
tags:
  - reinforcement-learning
  - benchmark
  - rewardlab
viewer: false
---
"""
BODY = """
# Deep-RL runs

Run folders of RewardLab: specs, tables, metrics, graphs and policies. Each folder under `data/` holds a
`manifest.json` with the size and SHA-256 of its files.

```
HF_REPO={repo} rewardlab list
HF_REPO={repo} rewardlab pull ppo_cartpole
rewardlab run ppo_cartpole enjoy@data/FOLDER
rewardlab verify data/FOLDER
```
"""


def dataset_card(text: str = "", repo: str = "USER/REPO") -> str:
    """A page with the head of a dataset card before it; without a page, one that says how to use the hub."""
    body = text or BODY.replace("{repo}", repo)
    return body if body.startswith("---\n") else HEAD + body
