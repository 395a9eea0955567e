"""The seeds' advice on searches, checked: sentences that warn, and none that forbids."""

from __future__ import annotations

from collections.abc import Iterator

from rewardlab.spec import Spec, parse_search

FEW, MANY = 3, 4  # trials per searched dimension
CHECKPOINTS = 10  # rows of the table that a comparison should rest on


def advice(spec: Spec) -> Iterator[str]:
    """What about a search is unlikely to be wanted."""
    ranges = parse_search(spec.search)
    meta, dimensions = spec.meta, len(ranges)
    if meta.max_trial < FEW * dimensions:
        yield (
            f"{meta.max_trial} trials for {dimensions} ranges: take {FEW * dimensions} to {MANY * dimensions} "
            f"(-s meta.max_trial={MANY * dimensions}), or search fewer ranges"
        )
    for given in ranges:
        numbers = [v for v in given.args if isinstance(v, int | float) and not isinstance(v, bool)]
        if (
            given.kind == "choice"
            and len(numbers) == len(given.args) > 2
            and any(isinstance(v, float) for v in numbers)
        ):
            kind = "loguniform" if min(numbers) > 0 and max(numbers) >= 10 * min(numbers) else "uniform"
            low, high = min(numbers), max(numbers)
            yield f"{given.path}__choice of numbers: __{kind}: [{low}, {high}] learns more from as many trials"
    if meta.search_scheduler is None:
        if meta.max_session == 1:
            yield (
                "one session a trial and no search_scheduler is neither stage of a search: set meta.search_scheduler "
                "for a wide one (ASHA), or -s meta.max_session=4 for a robust one (Multi)"
            )
        return
    grace = meta.search_scheduler.grace_period
    if meta.max_session > 1:
        yield (
            f"a wide search (ASHA) wants one session a trial, this one has {meta.max_session}: -s meta.max_session=1; "
            f"several sessions are for the narrow one without a scheduler: -s meta.search_scheduler=null"
        )
    if grace >= spec.env.max_frame:
        yield f"the grace_period, {grace} frames, is as long as the run, so no trial is stopped early"
    elif grace < CHECKPOINTS * meta.log_frequency:
        yield (
            f"the grace_period, {grace} frames, holds {grace // meta.log_frequency} log checkpoints: "
            f"trials are compared on little; take {CHECKPOINTS * meta.log_frequency} or more"
        )
