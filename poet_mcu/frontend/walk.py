"""One walk over the nodes of a model: inputs, live nodes in order, output."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import TensorProto, numpy_helper

from poet_mcu.errors import InputError, InternalError, ModelError
from poet_mcu.frontend.checks import check_size, type_name
from poet_mcu.frontend.context import Active, Context, Pending, SoftmaxOf, Tensor, Transposed
from poet_mcu.frontend.handlers import STATIC_OPS, lower_computed, lower_node
from poet_mcu.frontend.heads import with_one_output
from poet_mcu.frontend.model_file import ModelFile, first_line
from poet_mcu.frontend.problems import Problem, SkipNode, node_label, node_op
from poet_mcu.frontend.shapes import inferred_shapes
from poet_mcu.ir.graph import DType, Graph, Role, TensorType, Value
from poet_mcu.ops.builder import GraphBuilder

#: what Python, numpy and onnx raise on numbers that contradict each other. onnx's checker lets many
#: pass, and each handler would have to ask for all that its operator's page takes for granted.
#: Tests with whole models empty it (tests/conftest.py), so that no defect passes for damage.
CONTRADICTIONS = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError)


class Walk:
    """Lowers a model node by node and collects every problem on the way.

    ``default_batch`` stands in for a symbolic batch when ``batch`` is None. With ``fuse_softmax``
    a final Softmax is left to the loss. After ``run`` and
    without ``problems``, ``graph()`` and the names and flags are valid.
    """

    def __init__(
        self,
        file: ModelFile,
        batch: int | None,
        trainable: Callable[[str], bool],
        default_batch: int | None = None,
        *,
        fuse_softmax: bool = True,
        fuse_sigmoid: bool = False,
        batchnorm: str = "auto",
        dropout: str = "model",
        seed: int = 0,
    ) -> None:
        if batch is not None and batch < 1:
            raise InputError(f"--batch: expected 1 or more, got {batch}")
        self.proto, head_notes = with_one_output(file.proto.graph)
        self.problems: list[Problem] = []
        self.ctx = Context(GraphBuilder(file.path.stem), file.opset, trainable, batchnorm)
        self.ctx.lower_computed = lower_computed
        self.ctx.fuse_softmax, self.ctx.fuse_sigmoid = fuse_softmax, fuse_sigmoid
        self.ctx.dropout, self.ctx.seed = dropout, seed
        self.ctx.notes += head_notes
        self.activation = ""
        self.input_name = ""
        self.output_name = ""
        self.output_shape: tuple[int, ...] = ()
        self._file = file
        self._batch = batch
        self._default_batch = file.batch or default_batch
        self._output: Value | None = None
        self._shapes: dict[str, tuple[int, ...]] | None = None  # asked for once there is a problem

    def run(self) -> None:
        """Walk the whole model; problems are collected, not raised."""
        live = self._live_nodes()
        self._index(live)
        self._add_tensors(live)
        dims = self._add_inputs()
        for index, node in live:
            if not self._lower(index, node):
                self._go_on_behind(node, dims)
        self._take_output()

    def graph(self) -> Graph:
        """The forward graph; only after a run without problems."""
        if self._output is None or self.problems:
            raise InternalError("frontend: graph() of a model with problems; a bug in walk.py")
        return self.ctx.builder.finish([self._output])

    def _problem(self, node: str, message: str, op: str = "") -> None:
        self.problems.append(Problem(node, op, message))

    def _live_nodes(self) -> list[tuple[int, onnx.NodeProto]]:
        """Nodes that the outputs depend on, in order, with their index in the file."""
        needed = {info.name for info in self.proto.output}
        live = []
        dead = []
        for index, node in reversed(list(enumerate(self.proto.node))):
            if needed.isdisjoint(name for name in node.output if name):
                dead.append(node_label(index, node))
                continue
            live.append((index, node))
            needed.update(name for name in node.input if name)
        if dead:
            some = ", ".join(dead[::-1][:5])
            self.ctx.notes.append(f"{len(dead)} nodes do not reach the output: left out {some}")
        return live[::-1]

    def _index(self, live: list[tuple[int, onnx.NodeProto]]) -> None:
        ctx = self.ctx
        ctx.outputs = frozenset(info.name for info in self.proto.output)
        ctx.static = {tensor.name for tensor in self.proto.initializer}
        for _, node in live:
            for name in node.input:
                ctx.consumers.setdefault(name, []).append(node)
            if node.op_type in STATIC_OPS and ctx.static.issuperset(n for n in node.input if n):
                ctx.static.update(node.output)

    def _add_tensors(self, live: list[tuple[int, onnx.NodeProto]]) -> None:
        used = {name for _, node in live for name in node.input} | self.ctx.outputs
        if self.proto.sparse_initializer:
            self._problem("model", "expected dense initializers, got sparse; store them dense")
        for tensor in self.proto.initializer:
            if tensor.name not in used:
                continue
            try:
                self.ctx.env[tensor.name] = _stored(tensor)
            except ModelError as error:
                self._problem(f"tensor '{tensor.name}'", str(error))

    def _add_inputs(self) -> dict[str, tuple[int, ...]]:
        """Make the input value; shapes of all real inputs that have one."""
        stored = {tensor.name for tensor in self.proto.initializer}
        infos = [info for info in self.proto.input if info.name not in stored]
        if len(infos) != 1:
            names = ", ".join(f"'{info.name}'" for info in infos) or "none"
            hint = "export with constants in place of the others" if infos else "export it again"
            self._problem("model", f"expected exactly one input, got {names}; {hint}")
        dims = {}
        for info in infos:
            try:
                shape = self._input_shape(info)
            except ModelError as error:
                self._problem(f"input '{info.name}'", str(error))
                continue
            dims[info.name] = shape
            elem = info.type.tensor_type.elem_type
            kind = TensorType(shape, DType.F32 if elem == TensorProto.FLOAT else DType.I32)
            value = self.ctx.builder.value(info.name, kind, Role.INPUT, info.name)
            self.ctx.env[info.name] = Active(value)
            self.input_name = info.name
        return dims

    def _input_shape(self, info: onnx.ValueInfoProto) -> tuple[int, ...]:
        tensor = info.type.tensor_type
        if tensor.elem_type not in (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64):
            raise ModelError(
                "expected float32 (or integers for an embedding), got "
                f"{type_name(tensor.elem_type)}; export in float32"
            )
        if not tensor.shape.dim:
            raise ModelError("expected a shape with a batch dimension, got none; export with one")
        dims = [self._dim(i, dim) for i, dim in enumerate(tensor.shape.dim)]
        fixed = tensor.shape.dim[0].HasField("dim_value")
        if fixed and self._batch not in (None, dims[0]):
            raise ModelError(
                f"expected the batch {dims[0]} that the model fixes, got --batch {self._batch}; "
                "export with a symbolic batch dimension or leave the option out"
            )
        check_size(info.name, tuple(dims))
        return tuple(dims)

    def _dim(self, index: int, dim: onnx.TensorShapeProto.Dimension) -> int:
        if dim.HasField("dim_value"):
            if dim.dim_value < 1:
                raise ModelError(
                    f"expected dimension {index} of 1 or more, got {dim.dim_value}; "
                    "export with a fixed size"
                )
            return int(dim.dim_value)
        name = f"'{dim.dim_param}'" if dim.dim_param else "unknown"
        if index != 0:
            raise ModelError(
                f"expected a fixed dimension {index}, got {name}; only the batch (dimension 0) "
                "may be symbolic: export with a fixed size"
            )
        batch = self._batch or self._default_batch
        if batch is None:
            raise ModelError(
                f"expected a fixed dimension 0, got {name}; say which batch to use: --batch N"
            )
        return batch

    def _lower(self, index: int, node: onnx.NodeProto) -> bool:
        """Whether its outputs are known now."""
        try:
            lower_node(self.ctx, node)
        except SkipNode:
            return False
        except ModelError as error:
            self._problem(node_label(index, node), str(error), node_op(node))
            return False
        except CONTRADICTIONS as error:
            message = (
                f"expected attributes and operands that fit {node.op_type}, got: "
                f"{type(error).__name__}: {first_line(error)}; export the model again, and if "
                "onnx.checker accepts it, report this as a defect of poet-mcu"
            )
            self._problem(node_label(index, node), message, node_op(node))
            return False
        return True

    def _go_on_behind(self, node: onnx.NodeProto, dims: dict[str, tuple[int, ...]]) -> None:
        """Take its outputs for made where their shapes are known, to find further problems."""
        if self.ctx.consumers.keys().isdisjoint(node.output):
            return
        if self._shapes is None:
            self._shapes = inferred_shapes(self._file.proto, dims)
        for name in node.output:
            if name in self._shapes and name not in self.ctx.env:
                kind = TensorType(self._shapes[name])
                self.ctx.env[name] = Active(self.ctx.builder.value(name, kind, Role.ACTIVATION))

    def _take_output(self) -> None:
        if len(self.proto.output) != 1:
            names = ", ".join(f"'{info.name}'" for info in self.proto.output) or "none"
            self._problem(
                "model", f"expected exactly one output, got {names}; export only the logits"
            )
            return
        info = self.proto.output[0]
        self.output_name = info.name
        entry = self.ctx.env.get(info.name)
        if isinstance(entry, Transposed):
            entry = Active(entry.compute())
        if isinstance(entry, SoftmaxOf):
            self.activation = entry.op
            self._output, self.output_shape = entry.logits, entry.out_shape
            self.ctx.notes.append(
                f"the final {entry.op} {entry.label} is left to the loss: the output is its logits"
            )
        elif isinstance(entry, Active):
            self._output, self.output_shape = entry.value, entry.value.shape
        elif isinstance(entry, Tensor | Pending):
            self._problem(f"output '{info.name}'", "expected a computed output, got a constant")
        if not self.problems:
            self._check_output(info)

    def _check_output(self, info: onnx.ValueInfoProto) -> None:
        where = f"output '{info.name}'"
        if self._output is None:
            self._problem(where, "expected an operator that makes it, got none; export it again")
            return
        if not self.ctx.builder.nodes:
            self._problem(where, "expected at least one operator before it, got none")
            return
        tensor = info.type.tensor_type
        stated = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if not tensor.HasField("shape"):
            return
        fits = len(stated) == len(self.output_shape) and all(
            s in (None, dim) for s, dim in zip(stated, self.output_shape, strict=True)
        )
        if not fits:
            shown = ["?" if dim is None else dim for dim in stated]
            self._problem(
                where,
                f"expected the shape the model states, {shown}, got {list(self.output_shape)}; "
                "export with a symbolic batch dimension throughout, or run shape inference again",
            )


def _stored(tensor: onnx.TensorProto) -> Tensor:
    """The elements of an initializer."""
    if any(dim < 0 for dim in tensor.dims):
        raise ModelError(f"expected dimensions of 0 or more, got {list(tensor.dims)}")
    if tensor.data_type == TensorProto.FLOAT:
        check_size(tensor.name, tuple(tensor.dims))
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelError(
            f"expected elements for shape {list(tensor.dims)}, got: {first_line(error)}; "
            "export the model again"
        ) from error
    return Tensor(array, () if array.dtype.kind in "iub" else (tensor.name,))
