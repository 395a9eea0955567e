"""PPO on CartPole with the whole training in one jitted program: environment, rollout, update, all iterations.

Written from the paper in the style that PureJaxRL made popular (everything a `lax.scan`, seeds a `vmap`, the end of an
episode of either kind cuts the sum). The yardstick for RewardLab's own loop, so it is tuned for a CPU: the random
numbers of a rollout are drawn at once, the shuffle sorts plain words, and the optimiser sees one flat vector.
`--devices 2` lays the sessions over two CPU devices, because one vmapped program of small matrices keeps one core busy.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import purejax_cartpole as cartpole
from contract import Measurement, Request, parse_request, report, wait_at_barrier
from jax.flatten_util import ravel_pytree
from settings import TASKS, PpoWork

Params = dict[str, list[tuple[jax.Array, jax.Array]]]


class Rollout(NamedTuple):
    """Leading axes: time, environment."""

    observations: jax.Array
    actions: jax.Array
    log_probs: jax.Array
    values: jax.Array
    dones: jax.Array


class Batch(NamedTuple):
    observations: jax.Array
    actions: jax.Array
    log_probs: jax.Array
    advantages: jax.Array
    targets: jax.Array


def orthogonal(random: np.random.Generator, inputs: int, outputs: int, gain: float) -> np.ndarray:
    """In NumPy, because a vmapped QR inside a jitted program can deadlock XLA's two CPU workers (jaxlib 0.10.2)."""
    q, r = np.linalg.qr(random.standard_normal((max(inputs, outputs), min(inputs, outputs))))
    q = q * np.sign(np.diag(r))
    return (gain * (q if inputs >= outputs else q.T)).astype(np.float32)


def init_mlp(random: np.random.Generator, sizes: list[int], last_gain: float) -> list[tuple[jax.Array, jax.Array]]:
    gains = [2**0.5] * (len(sizes) - 2) + [last_gain]
    return [
        (jnp.asarray(orthogonal(random, inputs, outputs, gain)), jnp.zeros(outputs))
        for gain, inputs, outputs in zip(gains, sizes[:-1], sizes[1:], strict=True)
    ]


def init_params(seed: int, work: PpoWork) -> Params:
    random = np.random.default_rng(seed)
    hidden = [cartpole.OBSERVATION_SIZE, *work.widths]
    return {
        "actor": init_mlp(random, [*hidden, cartpole.ACTIONS], 0.01),
        "critic": init_mlp(random, [*hidden, 1], 1.0),
    }


def apply_mlp(layers: list[tuple[jax.Array, jax.Array]], inputs: jax.Array) -> jax.Array:
    for weight, bias in layers[:-1]:
        inputs = jnp.tanh(inputs @ weight + bias)
    weight, bias = layers[-1]
    return inputs @ weight + bias


def pick(table: jax.Array, actions: jax.Array) -> jax.Array:
    return jnp.where(actions == 1, table[..., 1], table[..., 0])


def collect(params: Params, states: cartpole.CartPole, key: jax.Array, work: PpoWork) -> tuple[Any, Rollout]:
    noise_key, start_key = jax.random.split(key)
    shape = (work.rollout_steps, work.num_envs)
    noise = jax.random.logistic(noise_key, shape)  # Gumbel-max over two actions needs one logistic number
    starts = cartpole.fresh_physics(start_key, shape)

    def act(states: cartpole.CartPole, randomness: tuple[jax.Array, jax.Array]) -> tuple[Any, Rollout]:
        noise, starts = randomness
        logits = apply_mlp(params["actor"], states.physics)
        actions = (logits[:, 1] - logits[:, 0] + noise > 0).astype(jnp.int32)
        log_probs = pick(jax.nn.log_softmax(logits), actions)
        values = apply_mlp(params["critic"], states.physics)[:, 0]
        after, dones = jax.vmap(cartpole.step)(states, actions, starts)
        return after, Rollout(states.physics, actions, log_probs, values, dones)

    return jax.lax.scan(act, states, (noise, starts))


def advantages_of(rollout: Rollout, last_value: jax.Array, work: PpoWork) -> jax.Array:
    """GAE(lambda) with a reward of 1 at every step."""
    alive = 1.0 - rollout.dones
    next_values = jnp.concatenate([rollout.values[1:], last_value[None]])
    deltas = 1.0 + work.gamma * next_values * alive - rollout.values

    def backwards(running: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        delta, decay = step
        running = delta + decay * running
        return running, running

    decays = work.gamma * work.gae_lambda * alive
    return jax.lax.scan(backwards, jnp.zeros_like(last_value), (deltas, decays), reverse=True)[1]


def loss_of(params: Params, batch: Batch, work: PpoWork) -> jax.Array:
    log_policy = jax.nn.log_softmax(apply_mlp(params["actor"], batch.observations))
    values = apply_mlp(params["critic"], batch.observations)[:, 0]
    advantages = (batch.advantages - batch.advantages.mean()) / (batch.advantages.std() + 1e-8)
    ratio = jnp.exp(pick(log_policy, batch.actions) - batch.log_probs)
    clipped = jnp.clip(ratio, 1 - work.clip, 1 + work.clip)
    policy_loss = -jnp.minimum(ratio * advantages, clipped * advantages).mean()
    value_loss = 0.5 * jnp.square(values - batch.targets).mean()
    entropy = -(jnp.exp(log_policy) * log_policy).sum(-1).mean()
    return policy_loss + work.value_coef * value_loss - work.entropy_coef * entropy


def make_train(work: PpoWork, iterations: int) -> Callable[[Params, jax.Array], jax.Array]:
    """A pure function from first parameters and a key to the last returns of the environments."""
    optimizer = optax.chain(
        optax.clip_by_global_norm(work.max_grad_norm), optax.adam(work.learning_rate, eps=work.adam_epsilon)
    )

    def train(params: Params, key: jax.Array) -> jax.Array:
        env_key, run_key = jax.random.split(key)
        flat, unravel = ravel_pytree(params)
        states = jax.vmap(cartpole.reset)(jax.random.split(env_key, work.num_envs))

        def update(carry: tuple[jax.Array, Any], batch: Batch) -> tuple[tuple[jax.Array, Any], None]:
            flat, optimizer_state = carry
            gradient = jax.grad(lambda vector: loss_of(unravel(vector), batch, work))(flat)
            change, optimizer_state = optimizer.update(gradient, optimizer_state)
            return (flat + change, optimizer_state), None

        def iterate(carry: tuple[Any, ...], key: jax.Array) -> tuple[tuple[Any, ...], None]:
            flat, optimizer_state, states = carry
            rollout_key, shuffle_key = jax.random.split(key)
            states, rollout = collect(unravel(flat), states, rollout_key, work)
            last_value = apply_mlp(unravel(flat)["critic"], states.physics)[:, 0]
            minibatches = shuffled(shuffle_key, rollout, advantages_of(rollout, last_value, work), work)
            (flat, optimizer_state), _ = jax.lax.scan(update, (flat, optimizer_state), minibatches)
            return (flat, optimizer_state, states), None

        keys = jax.random.split(run_key, iterations)
        (_, _, states), _ = jax.lax.scan(iterate, (flat, optimizer.init(flat), states), keys)
        return states.returned

    return train


def random_orders(key: jax.Array, count: int, size: int) -> jax.Array:
    """`count` orders of 0 … size-1: the index rides in the low bits of random words, since XLA's CPU sorts plain words
    five to ten times faster than the pairs that `jax.random.permutation` sorts."""
    low_bits = jnp.uint32((1 << (size - 1).bit_length()) - 1)
    words = jax.random.bits(key, (count, size), jnp.uint32) & ~low_bits
    return (jnp.sort(words | jnp.arange(size, dtype=jnp.uint32), axis=-1) & low_bits).astype(jnp.int32)


def shuffled(key: jax.Array, rollout: Rollout, advantages: jax.Array, work: PpoWork) -> Batch:
    """All minibatches of all epochs; every epoch has its own order."""
    batch = Batch(rollout.observations, rollout.actions, rollout.log_probs, advantages, advantages + rollout.values)
    size = work.frames_per_iteration
    rows = random_orders(key, work.epochs, size).reshape(work.updates_per_iteration, work.minibatch_size)
    return jax.tree.map(lambda column: column.reshape(size, *column.shape[2:])[rows], batch)


def compiled(work: PpoWork, iterations: int, request: Request) -> tuple[Any, tuple[Any, ...]]:
    """All sessions as one program, split over `request.devices` CPU devices; and its arguments."""
    sessions = [init_params(request.seed + session, work) for session in range(request.sessions)]
    params = jax.tree.map(lambda *leaves: np.stack(leaves), *sessions)
    keys = jax.random.split(jax.random.key(request.seed), request.sessions)
    train, arguments = jax.vmap(make_train(work, iterations)), (params, keys)
    if request.devices > 1:
        mesh = jax.make_mesh((request.devices,), ("session",))
        by_session = jax.sharding.PartitionSpec("session")
        arguments = jax.device_put(arguments, jax.sharding.NamedSharding(mesh, by_session))
        train = jax.shard_map(train, mesh=mesh, in_specs=by_session, out_specs=by_session, check_vma=False)
    return jax.jit(train).lower(*arguments).compile(), arguments


def measure(request: Request) -> Measurement:
    work = TASKS[request.task]
    iterations = -(-request.frames // work.frames_per_iteration)
    born = time.perf_counter()
    train, arguments = compiled(work, iterations, request)
    train(*arguments).block_until_ready()
    warm = time.perf_counter()
    wait_at_barrier(request)
    start = time.perf_counter()
    returned = train(*arguments).block_until_ready()
    return Measurement(
        frames=iterations * work.frames_per_iteration,
        seconds=time.perf_counter() - start,
        warmup_seconds=warm - born,
        updates=iterations * work.updates_per_iteration,
        return_last=float(returned.mean()),
    )


def main() -> None:
    tasks = [task for task, work in TASKS.items() if isinstance(work, PpoWork)]
    request = parse_request("purejax", tasks, can_hold_sessions=True)
    jax.config.update("jax_num_cpu_devices", request.devices)
    versions = {"jax": jax.__version__, "jaxlib": jax.lib.__version__, "optax": optax.__version__}
    report(request, measure(request), device=jax.devices()[0].platform, versions=versions)


if __name__ == "__main__":
    main()
