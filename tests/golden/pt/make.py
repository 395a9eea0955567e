"""Made the files beside it: `python make.py` with PyTorch 2.13. An MLP and a conv net as SLM-Lab saves its nets, and a
file that would run a command."""

import os
import pickle
import zipfile
from pathlib import Path

import torch

HERE = Path(__file__).parent
torch.manual_seed(0)
mlp = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
torch.save(mlp.state_dict(), HERE / "mlp.pt")
conv = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.BatchNorm2d(3))
torch.save({"net": conv.state_dict(), "step": 7, "view": torch.arange(6.0).reshape(2, 3).T[1:]}, HERE / "conv.pt")
with torch.no_grad():
    (HERE / "mlp.txt").write_text(" ".join(f"{v:.9g}" for v in mlp(torch.tensor([[0.1, -0.2, 0.3, 0.4]]))[0].tolist()))


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("echo run > evil",)


with zipfile.ZipFile(HERE / "evil.pt", "w") as archive:
    archive.writestr("evil/data.pkl", pickle.dumps({"weight": Evil()}, protocol=2))
