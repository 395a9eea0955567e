"""`rewardlab export`, `rewardlab weights`: policies for others, and others' weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(help="A run folder.")],
    form: Annotated[str, typer.Option("--format", help="onnx or pt (PyTorch writes it).")] = "onnx",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file; beside the weights if left out.")
    ] = None,
) -> None:
    """Write a run's best policy as ONNX or as a PyTorch file, with observation statistics and action scaling."""
    from rewardlab.cli.run import cache_folder
    from rewardlab.experiment import device
    from rewardlab.experiment.export import export as write
    from rewardlab.experiment.record import RunFolder

    device.prepare(cache_folder())
    print(write(RunFolder.open(folder), form, output))


def weights(
    file: Annotated[Path, typer.Argument(help="A .pt file, such as SLM-Lab's ckpt-best_net_model.pt.")],
    json: Annotated[bool, typer.Option("--json", help="JSON alone on stdout.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write them as a safetensors file.")] = None,
) -> None:
    """The tensors of a PyTorch file, read without PyTorch; nothing in the file is run."""
    from json import dumps

    from rewardlab.experiment.torch_file import read_torch

    found = read_torch(file)
    if output is not None:
        from safetensors.numpy import save_file

        save_file(found, output)
    rows = [{"name": n, "dtype": str(x.dtype), "shape": list(x.shape)} for n, x in found.items()]
    if json:
        print(dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:40} {row['dtype']:10} {row['shape']}")


def mount(app: typer.Typer) -> None:
    """At the front door."""
    app.command("export")(export)
    app.command("weights")(weights)
