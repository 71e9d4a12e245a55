#!/usr/bin/env python3
"""Writes ONNX's node tests of operators that the specification defines as functions, with calls of model-local
functions instead of the operators, as folders of the ONNX backend-test layout.

    generate_functions.py OUT

The bodies are the onnx package's; operators in them that are functions too become calls again. Models that need an
operator which docs/operators.md does not list are left out, and so are those of float8 and smaller types.
`quern verify OUT --rtol 0 --tolerance OUT/tolerance.json` compares with the results that the tests give.
"""

import argparse
import json
import pathlib
import re
import shutil
import warnings

import onnx
from onnx import defs, helper, numpy_helper

DOMAIN = "local"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/operators.md"
OPERATORS = {m[1] for m in re.finditer(r"^\| (\w+) \| [\d, ]+ \|", PAGE.read_text(), re.M)}
HALVES = {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}
FIRST_SMALL = onnx.TensorProto.FLOAT8E4M3FN  # from here on types of eight bits and less


class Functions:
    """The functions of one model."""

    def __init__(self):
        self.made = {}

    def body(self, schema, opset, node, types):
        """The FunctionProto of an operator, or None; bodies may depend on the node and the types of its inputs."""
        versions = [v for v in schema.function_opset_versions if v <= opset]
        if versions:
            return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(max(versions)))
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if not versions or types is None:
            return None
        made = schema.get_context_dependent_function_with_opset_version(
            max(versions), node.SerializeToString(), [t.SerializeToString() for t in types]
        )
        return onnx.FunctionProto.FromString(made) if made else None

    def call(self, node, opset, types=None):
        """Makes `node` a call where its operator has a body; True if it did."""
        try:
            schema = defs.get_schema(node.op_type, opset, node.domain)
            function = self.body(schema, opset, node, types)
        except (defs.SchemaError, RuntimeError):
            return False
        if function is None or not function.node:
            return False
        overload = f"v{schema.since_version}"
        key = node.op_type, overload
        node.domain, node.overload = DOMAIN, overload
        if key in self.made:
            return True
        self.made[key] = function
        function.domain, function.name, function.overload = DOMAIN, node.op_type, overload
        known = {a.name for a in function.attribute_proto} | set(function.attribute)
        for name, attribute in schema.attributes.items():
            has_default = attribute.default_value.type != onnx.AttributeProto.UNDEFINED
            if has_default:
                function.attribute_proto.append(attribute.default_value)
            elif name not in known:
                function.attribute.append(name)
        defaults = {a.name for a in function.attribute_proto}
        required = [name for name in function.attribute if name not in defaults]
        del function.attribute[:]
        function.attribute.extend(required)
        version = max((i.version for i in function.opset_import if i.domain in ("", "ai.onnx")), default=0)
        self.calls_in(function.node, version)
        function.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return True

    def calls_in(self, nodes, opset):
        for node in nodes:
            if node.domain in ("", "ai.onnx"):
                self.call(node, opset)
            for attribute in node.attribute:
                self.calls_in(attribute.g.node, opset)


def with_functions(model):
    """The model with a call instead of its node, or None."""
    if len(model.graph.node) != 1:
        return None
    opset = max((i.version for i in model.opset_import if i.domain in ("", "ai.onnx")), default=0)
    made, functions = onnx.ModelProto(), Functions()
    made.CopyFrom(model)
    types = {i.name: i.type for i in made.graph.input}
    node = made.graph.node[0]
    given = [types.get(name, onnx.TypeProto()) for name in node.input]
    if not functions.call(node, opset, given):
        return None
    if any(op and op.startswith("Random") for f in functions.made.values() for op in operators(f.node)):
        return None  # others' draws
    made.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    made.functions.extend(functions.made.values())
    made.ir_version = max(made.ir_version, 10)
    return made


def operators(nodes):
    for node in nodes:
        yield node.op_type if node.domain in ("", "ai.onnx") else None
        for attribute in node.attribute:
            yield from operators(attribute.g.node)


def element_types(model):
    return {i.type.tensor_type.elem_type for i in (*model.graph.input, *model.graph.output)}


def encode(value, name):
    if isinstance(value, onnx.TensorProto):
        return value
    if isinstance(value, list):
        return numpy_helper.from_list(value, name)
    return numpy_helper.from_array(value, name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    shutil.rmtree(args.out, ignore_errors=True)
    tolerances = {}
    for case in load_model_tests(kind="node"):
        model = with_functions(case.model)
        if model is None or any(v is None for inputs, outputs in case.data_sets for v in (*inputs, *outputs)):
            continue
        used = {op for nodes in (model.graph.node, *(f.node for f in model.functions)) for op in operators(nodes)}
        if used - OPERATORS - {None} or max(element_types(model)) >= FIRST_SMALL:
            continue
        folder = args.out / case.name
        folder.mkdir(parents=True)
        onnx.save(model, folder / "model.onnx")
        for index, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{index}"
            data.mkdir()
            for kind, values, infos in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
                for i, (value, info) in enumerate(zip(values, infos, strict=True)):
                    (data / f"{kind}_{i}.pb").write_bytes(encode(value, info.name).SerializeToString())
        tolerances[case.name] = 1e-2 if element_types(model) & HALVES else 1e-3
    (args.out / "tolerance.json").write_text(json.dumps(tolerances, indent=1) + "\n")
    print(f"wrote {len(tolerances)} models to {args.out}")


if __name__ == "__main__":
    main()
