"""Our operator table (docs/operators.md, made from src/ops) against the schemas of the onnx package: every version of
an operator that is in force somewhere between operator sets 6 and 28 is there, and the attributes of the newest are
onnx's.
"""

import pathlib
import re

import onnx
import pytest

FIRST, LAST = 6, 28
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/operators.md"

LATER_TYPES = "later versions only admit more element types, and our newest admits them all"
NOT_THERE = {  # operator -> {version: why it has no row of its own}
    "Constant": dict.fromkeys((9, 19, 21, 23, 24, 25), LATER_TYPES),
    "Identity": dict.fromkeys((16, 19, 21, 23, 24, 25), LATER_TYPES),
    "If": dict.fromkeys((19, 21, 23, 24, 25), LATER_TYPES),
    "Loop": dict.fromkeys((19, 21, 23, 24, 25), LATER_TYPES),
    "Upsample": {1: "experimental: height_scale and width_scale instead of scales; exporters of set 6 wrote none"},
}
NOT_ONNX = {"SimplifiedLayerNormalization": "onnxruntime's, in ai.onnx's domain"}
DEFAULTS = {("ConstantOfShape", "value"): "a tensor, which schemas cannot give as a default"}


def read_table():
    """Operators of ai.onnx: name -> (versions, attribute -> (required, default as text or None))."""
    table, domain = {}, None
    for line in PAGE.read_text().splitlines():
        if match := re.match(r"## (\S+): ", line):
            domain = match[1]
        elif domain == "ai.onnx" and (match := re.match(r"\| (\w+) \| ([\d, ]+) \| (.*) \| .* \|$", line)):
            attributes = {}
            for text in filter(None, re.split(r", (?=`)", match[3])):
                name, required, default = re.match(r"`(\w+)`( \(required\))?(?: = (.*))?$", text).groups()
                attributes[name] = bool(required), default
            table[match[1]] = {int(v) for v in match[2].split(",")}, attributes
    return table


def read_schemas():
    """name -> {since_version: schema} of ai.onnx, up to the last operator set that we read."""
    schemas = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= LAST:
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


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOT_ONNX.keys()))
def test_versions(name):
    since = sorted(SCHEMAS[name])
    in_force = {v for v, following in zip(since, since[1:] + [LAST + 1]) if following > FIRST}
    left_out = set(NOT_THERE.get(name, {}))
    assert in_force - TABLE[name][0] == left_out, "versions of onnx that are missing, and those that are known to be"
    assert TABLE[name][0] <= set(since), "versions that onnx does not have"


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOT_ONNX.keys()))
def test_attributes_of_the_newest(name):
    theirs = SCHEMAS[name][max(SCHEMAS[name])].attributes
    ours = TABLE[name][1]
    assert ours.keys() == theirs.keys()
    for key, attribute in theirs.items():
        required, default = ours[key]
        assert required == attribute.required, key
        assert (name, key) in DEFAULTS or same(default, as_text(attribute)), (key, default, as_text(attribute))


def test_the_exceptions_are_needed():
    assert NOT_THERE.keys() <= TABLE.keys()
    assert all(name in TABLE and name not in SCHEMAS for name in NOT_ONNX)
    assert all(key in TABLE[name][1] for name, key in DEFAULTS)
