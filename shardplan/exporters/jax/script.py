"""A short JAX script: the plan's mesh, and the sharding of every weight and of the main activations, by logical axis.

It runs as it stands on TPUs and, for a small mesh, on CPU devices. It allocates nothing: it prints what a device holds, and
compiles the output layer with its gradients to show the collectives. Shardings are those of MaxText's default rules.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from shardplan.cost.tensors.parameters import parameter_tensors
from shardplan.cost.tensors.sharding import mesh_axes
from shardplan.maxtext.axes import ACTIVATION_RULES
from shardplan.spec import AXES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shardplan.cost.tensors.parameters import Dim, ParameterTensor
    from shardplan.exporters.launch import Job
    from shardplan.spec import Case

_SCRIPT: Final = '''\
"""{title}

Without a TPU: XLA_FLAGS=--xla_force_host_platform_device_count={devices} JAX_PLATFORMS=cpu python3 this_file.py
"""

import math
import re
import sys
from collections import Counter

import jax
import jax.numpy as jnp
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

# Degree of each mesh axis: inside a slice, and across slices. Axes that are not listed have 1.
ICI = {ici}
DCN = {dcn}
MESH = {{axis: ICI.get(axis, 1) * DCN.get(axis, 1) for axis in {axes}}}

# Weights: how many there are, size and logical axis of each dimension, mesh axes that split each dimension.
WEIGHTS = {{
{weights}
}}
# Activations of one micro-step, the same way.
ACTIVATIONS = {{
{activations}
}}


def make_mesh():
    """The plan's mesh over the devices there are."""
    names, shape = tuple(MESH), tuple(MESH.values())
    if len(jax.devices()) != math.prod(shape):
        sys.exit(f"this plan is for {{math.prod(shape)}} devices; there are {{len(jax.devices())}} {{jax.devices()[0].platform}}")
    types = (AxisType.Auto,) * len(names)
    if len({{getattr(device, "slice_index", 0) for device in jax.devices()}}) > 1:
        inside, across = ([part.get(axis, 1) for axis in names] for part in (ICI, DCN))
        devices = mesh_utils.create_hybrid_device_mesh(inside, across, allow_split_physical_axes={split})
        return Mesh(devices, names, axis_types=types)
{make_mesh}

def abstract(mesh, entry, dtype):
    """An array that is only described: shape, type and sharding."""
    *_, dims, spec = entry
    return jax.ShapeDtypeStruct([size for size, _ in dims], dtype, sharding=NamedSharding(mesh, spec))


def describe(mesh):
    """Print the part of each array that one device holds, and return the bytes of its weights."""
    total = 0
    for name, entry in (WEIGHTS | ACTIVATIONS).items():
        array = abstract(mesh, entry, jnp.{weight_dtype})
        shard = array.sharding.shard_shape(array.shape)
        dims = ", ".join(f"{{logical}} {{size}}" for size, logical in entry[-2])
        print(f"{{name:32}} [{{dims}}] split by {{entry[-1]}}: {{shard}}")
        if name in WEIGHTS:
            total += entry[0] * math.prod(shard) * array.dtype.itemsize
    return total


def collectives(mesh):
    """Compile the loss of the output layer and its gradients, and count the collectives XLA put in."""
    residual, head = (abstract(mesh, entry, jnp.bfloat16) for entry in (ACTIVATIONS["residual"], WEIGHTS["{head}"]))
    logits = NamedSharding(mesh, ACTIVATIONS["logits"][-1])

    def loss(head, residual):
        scores = jax.lax.with_sharding_constraint(residual @ head{transposed}, logits)
        return jax.nn.logsumexp(scores.astype(jnp.float32)).mean()

    shardings = (head.sharding, residual.sharding)
    compiled = jax.jit(jax.grad(loss, argnums=(0, 1)), out_shardings=shardings).lower(head, residual).compile()
    return Counter(re.findall(r"= \\S+ (all-gather|all-reduce|reduce-scatter|all-to-all|collective-permute)", compiled.as_text()))


if __name__ == "__main__":
    mesh = make_mesh()
    print(mesh)
    print(f"weights: {{describe(mesh):,}} bytes a device")
    print("output layer, forward and backward:", dict(collectives(mesh)))
'''

_PLAIN: Final = """\
    return jax.make_mesh(shape, names, axis_types=types)
"""
_SPLIT: Final = """\
    # jax.make_mesh refuses a mesh axis that takes a part of a physical axis of the torus; this plan has one.
    devices = mesh_utils.create_device_mesh(shape, allow_split_physical_axes=True)
    return Mesh(devices, names, axis_types=types)
"""


def script(job: Job) -> str:
    """The script for one plan; any model, MaxText need not know it."""
    case, mesh = job.case, job.choice.mesh
    used = [axis for axis in AXES if mesh.ici.get(axis, 1) * mesh.dcn.get(axis, 1) > 1] or ["fsdp"]
    stages = mesh.ici.get("pipeline", 1) * mesh.dcn.get("pipeline", 1)
    split = job.choice.allow_split_physical_axes
    tied = case.architecture.tied_embeddings
    return _SCRIPT.format(
        title=f"{job.title}.".replace("\\", "/").replace('"', "'"),
        devices=case.cluster.devices,
        ici=_mapping(mesh.ici),
        dcn=_mapping(mesh.dcn),
        axes=_tuple([f'"{axis}"' for axis in used]),
        weights="\n".join(_weight(tensor, stages, used) for tensor in parameter_tensors(case.architecture)),
        activations="\n".join(_activations(case, job, used)),
        make_mesh=_SPLIT if split else _PLAIN,
        split=split,
        weight_dtype=case.workload.optimizer.weight_dtype,
        head="embedding" if tied else "head",
        transposed=".T" if tied else "",
    )


def _weight(tensor: ParameterTensor, stages: int, used: Sequence[str]) -> str:
    """One line of WEIGHTS; layers that stages share get a dimension of stages."""
    dims, axes, copies = tensor.dims, mesh_axes(tensor.dims), tensor.copies
    if tensor.is_pipelined and stages > 1:
        dims, axes, copies = ((stages, "stage"), *dims), (("pipeline",), *axes), -(-copies // stages)
    return f'    "{tensor.name}": ({copies}, {_dims(dims)}, {_spec(axes, used)}),'


def _activations(case: Case, job: Job, used: Sequence[str]) -> Iterator[str]:
    """Lines of ACTIVATIONS: the tensors between the main matmuls of the last layer, and those around the layers."""
    choice, architecture = job.choice, case.architecture
    layer = architecture.layer_groups[-1].layers[-1]
    attention, block = layer.attention, layer.feed_forward
    rows = round(choice.per_device_batch * case.cluster.devices)
    degrees = [choice.mesh.ici.get(a, 1) * choice.mesh.dcn.get(a, 1) for a in ACTIVATION_RULES["loaded_batch"]]
    # Guard: a micro-step of fewer rows than stages share is split over them only once it has been reshaped.
    outer = "batch" if rows % math.prod(degrees) else "loaded_batch"
    T, D = case.workload.sequence_length, architecture.model_width
    width = block.total_shared_width if block.is_moe else block.width
    kinds: list[tuple[str, tuple[Dim, ...]]] = [
        ("tokens", ((rows, outer), (T, "length"))),
        ("residual", ((rows, "batch"), (T, "length"), (D, "embed"))),
        ("queries", ((rows, "batch"), (T, "length"), (attention.n_query_heads, "heads"), (attention.qk_width, "kv"))),
        ("keys", ((rows, "batch"), (T, "kv_length"), (attention.n_key_value_heads, "kv_heads"), (attention.qk_width, "kv"))),
        *([("hidden", ((rows, "batch"), (T, "length"), (width, "mlp")))] if width else []),
        ("logits", ((rows, outer), (T, "length"), (architecture.vocab_size, "vocab"))),
    ]  # fmt: skip
    for name, dims in kinds:
        axes = [ACTIVATION_RULES.get(logical, ()) for _, logical in dims]
        yield f'    "{name}": ({_dims(dims)}, {_spec(axes, used)}),'


def _dims(dims: Sequence[Dim]) -> str:
    return _tuple([f'({size}, "{logical}")' for size, logical in dims])


def _spec(axes: Sequence[Sequence[str]], used: Sequence[str]) -> str:
    """A PartitionSpec of the axes in use: an axis, several or None a dimension."""
    parts = []
    for of_dim in axes:
        names = [f'"{axis}"' for axis in of_dim if axis in used]
        parts.append("None" if not names else names[0] if len(names) == 1 else _tuple(names))
    return f"P({', '.join(parts)})"


def _mapping(degrees: dict[str, int]) -> str:
    return "{" + ", ".join(f'"{axis}": {degree}' for axis, degree in degrees.items()) + "}"


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
