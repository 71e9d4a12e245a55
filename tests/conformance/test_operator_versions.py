"""Our operator table (docs/operators.md) against the schemas of the onnx package: every version of an operator that is
in force somewhere between operator sets 6 and 28 of ai.onnx, and all of ai.onnx.ml, is there, and the attributes of the
newest are onnx's. The inputs, outputs and element types of every version are compared, too, as the built ops_test
writes them (QUERN_OPS_TEST, else that of build/release; skipped when there is none).
"""

import collections
import os
import pathlib
import re
import subprocess

import onnx
import pytest

LAST = 28  # operator set of ai.onnx
FIRST = {"ai.onnx": 6, "ai.onnx.ml": 1}
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operators.md"
OPS_TEST = pathlib.Path(os.environ.get("QUERN_OPS_TEST", ROOT / "build/release/src/ops/ops_test"))

EXPERIMENTAL = "experimental in operator set 1, dropped by onnx since"
NOT_ONNX = {
    "Affine": EXPERIMENTAL,
    "Crop": EXPERIMENTAL,
    "GivenTensorFill": EXPERIMENTAL,
    "ImageScaler": EXPERIMENTAL,
    "ParametricSoftplus": EXPERIMENTAL,
    "Scale": EXPERIMENTAL,
    "ScaledTanh": EXPERIMENTAL,
    "SimplifiedLayerNormalization": "onnxruntime's, in ai.onnx's domain",
}
OTHER_VERSIONS = {
    ("LayerNormalization", 1): "onnxruntime's, in models of older operator sets that its optimizer has saved",
    ("ThresholdedRelu", 1): EXPERIMENTAL,
}
DEFAULTS = {("ConstantOfShape", "value"): "a tensor, which schemas cannot give as a default"}
ELEMENTS = {"f32": "float", "f64": "double", "c64": "complex64", "c128": "complex128", "bool": "bool"}
PREFIXES = {"f": "float", "bf": "bfloat", "i": "int", "u": "uint"}  # of our names -> of onnx's
OTHER_TYPES = {  # (operator, version, input or output) -> why its types are not onnx's
    ("Constant", 1, "output"): "exporters of sets 6 to 8 wrote integers, too",
    **dict.fromkeys((("Flatten", 1, name) for name in ("data", "output")), "moves what later versions move"),
    **dict.fromkeys((("Gemm", v, "B") for v in (6, 7, 9, 11, 13)), "weights in block formats"),
}

ROW = re.compile(r"\| (\w+) \| ([\d, ]+) \| [^|]* \| ([^|]*) \| \w+ \| [^|]* \|$")  # name, sets, attributes
Parameter = collections.namedtuple("Parameter", "direction name variable arity kind types")


def element(name):
    return ELEMENTS.get(name) or re.sub(r"^(bf|f|i|u)(?=[0-9])", lambda m: PREFIXES[m[1]], name)


@pytest.fixture(scope="session")
def parameters(tmp_path_factory):
    """(domain, name, version) -> [Parameter]; types as onnx writes them."""
    if not OPS_TEST.exists():
        pytest.skip(f"{OPS_TEST} is not built")
    path = tmp_path_factory.mktemp("types") / "types.txt"
    command = [OPS_TEST, "--gtest_filter=OperatorTypes.AreSaidOfEveryOutput"]
    subprocess.run(command, env=os.environ | {"QUERN_WRITE_TYPES": str(path)}, check=True, stdout=subprocess.DEVNULL)
    table = {}
    for line in path.read_text().splitlines():
        domain, name, version, *rest, types = line.split(" ")
        types = set() if types == "-" else {element(t) for t in types.split(",")}
        table.setdefault((domain, name, int(version)), []).append(Parameter(*rest, types))
    return table


def read_table():
    """Operators of onnx's domains: name -> (versions, attribute -> (required, default as text or None))."""
    table, domain = {}, None
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"## (\S+): ", line):
            domain = match[1]
        elif domain in FIRST and (match := ROW.match(line)):
            attributes = {}
            for text in filter(None, re.split(r", (?=`)", match[3])):
                name, required, default = re.match(r"`(\w+)`( \(required\))?(?: = (.*))?$", text).groups()
                attributes[name] = bool(required), default
            table[match[1]] = {int(v) for v in match[2].split(",")}, attributes
    return table


def read_schemas():
    """name -> {since_version: schema}, up to the last operator set that we read; no name is in both domains."""
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if (schema.domain or "ai.onnx") in FIRST and schema.since_version <= LAST:
            schemas.setdefault(schema.name, {})[schema.since_version] = schema
    return schemas


TABLE, SCHEMAS = read_table(), read_schemas()


def as_text(attribute):
    """onnx's default as our table would write it, or None."""
    if not attribute.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(attribute.default_value)
    values = [v.decode() if isinstance(v, bytes) else v for v in (value if isinstance(value, list) else [value])]
    return "[" + ", ".join(map(str, values)) + "]" if isinstance(value, list) else values[0]


def same(ours, theirs):
    if isinstance(theirs, float) and ours is not None:
        return float(ours) == pytest.approx(theirs, rel=1e-6)
    return ours == (None if theirs is None else str(theirs))


def test_the_table_is_read():
    assert len(TABLE) > 100 and onnx.defs.onnx_opset_version() >= LAST


def domain_of(name):
    return SCHEMAS[name][max(SCHEMAS[name])].domain or "ai.onnx"


def in_force(name):
    """Versions of an operator that some operator set from FIRST on uses."""
    since, first = sorted(SCHEMAS[name]), FIRST[domain_of(name)]
    return {v for v, following in zip(since, since[1:] + [LAST + 1]) if following > first}


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOT_ONNX.keys()))
def test_versions(name):
    assert in_force(name) <= TABLE[name][0], "versions of onnx that are missing"
    ours = {v for v in TABLE[name][0] if (name, v) not in OTHER_VERSIONS}
    assert ours <= set(SCHEMAS[name]), "versions that onnx does not have"


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOT_ONNX.keys()))
def test_attributes_of_the_newest(name):
    theirs = SCHEMAS[name][max(SCHEMAS[name])].attributes
    ours = TABLE[name][1]
    assert ours.keys() == theirs.keys()
    for key, attribute in theirs.items():
        required, default = ours[key]
        assert required == attribute.required, key
        assert (name, key) in DEFAULTS or same(default, as_text(attribute)), (key, default, as_text(attribute))


OPTIONS = {"Single": "single", "Optional": "optional"}


def schema_parameters(schema):
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    for direction, formals in (("input", schema.inputs), ("output", schema.outputs)):
        for formal in formals:
            types = constraints.get(formal.type_str, [formal.type_str])
            tensors = {m[1] for t in types if (m := re.fullmatch(r"tensor\((\w+)\)", t))}
            kind = "tensor" if all(t.startswith("tensor(") for t in types) else "other"
            arity = OPTIONS.get(formal.option.name, "variadic" if formal.is_homogeneous else "heterogeneous")
            variable = formal.type_str if formal.type_str in constraints else "-"
            yield Parameter(direction, formal.name, variable, arity, kind, tensors)


def same_groups(ours, theirs):
    """Whether inputs share a type variable with those that they share it with in onnx."""
    inputs = [(a, b) for a, b in zip(ours, theirs) if a.direction == "input" and a.types == b.types]
    pairs = {(a.variable, b.variable) for a, b in inputs}
    pairs = {(a, b) for a, b in pairs if "-" not in (a, b)}
    return len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOT_ONNX.keys()))
def test_parameters_and_types(name, parameters):
    wrong = []
    for version in sorted(TABLE[name][0] & in_force(name)):
        ours, theirs = parameters[domain_of(name), name, version], list(schema_parameters(SCHEMAS[name][version]))
        if [p.direction for p in ours] != [p.direction for p in theirs]:
            wrong.append(f"{version}: {[p[:2] for p in ours]}, onnx has {[p[:2] for p in theirs]}")
            continue
        for our, their in zip(ours, theirs):
            if our.arity != their.arity:
                wrong.append(f"{version} {our.name}: is {our.arity}, in onnx {their.arity}")
            if our.kind == "tensor" and their.kind != "tensor":
                wrong.append(f"{version} {our.name}: is a {our.kind}, in onnx {their.kind}")
            known = our.kind not in ("tensor", "any") or (name, version, our.name) in OTHER_TYPES
            if our.types != their.types and not known:
                wrong.append(
                    f"{version} {our.name}: lacks {sorted(their.types - our.types)}, "
                    f"has {sorted(our.types - their.types)} more"
                )
        if not same_groups(ours, theirs):
            variables = [[p.variable for p in side] for side in (ours, theirs)]
            wrong.append(f"{version}: the type variables are {variables[0]}, onnx's {variables[1]}")
    assert not wrong, "\n".join(wrong)


def test_the_exceptions_are_needed():
    assert all(version in TABLE[name][0] for name, version, _ in OTHER_TYPES)
    assert all(name in TABLE and name not in SCHEMAS for name in NOT_ONNX)
    assert all(v in TABLE[name][0] and v not in SCHEMAS[name] for name, v in OTHER_VERSIONS)
    assert all(key in TABLE[name][1] for name, key in DEFAULTS)
