"""Python objects to Quern's values and back: arrays without copies, strings, sequences, optionals, maps."""

import numpy as np

from . import _quern
from ._errors import InvalidArgument

try:
    import ml_dtypes
except ImportError:  # then such types come as unsigned integers of their size
    ml_dtypes = None

TENSOR, STRINGS, SEQUENCE, OPTIONAL, MAP = 1, 2, 3, 4, 5

# Element types that NumPy has only through ml_dtypes: ONNX's number, and the name there.
_EXTENDED = {
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    24: "float8_e8m0fnu",
}
_EXTENDED_NUMBERS = {name: number for number, name in _EXTENDED.items()}
_NUMBERS = {"float": np.float32, "double": np.float64}
# Below a byte: bits, whether signed, and the name in ml_dtypes. An array has one element per byte; without ml_dtypes it
# is of int8 or uint8.
_SUB_BYTE = {
    21: (4, False, "uint4"),
    22: (4, True, "int4"),
    23: (4, False, "float4_e2m1fn"),
    25: (2, False, "uint2"),
    26: (2, True, "int2"),
    27: (6, False, "float6_e2m3fn"),
    28: (6, False, "float6_e3m2fn"),
}
_SUB_BYTE_NUMBERS = {name: number for number, (_, _, name) in _SUB_BYTE.items()}


def to_value(thing, port):
    """A Value for the input `port` (a NodeArg); raises InvalidArgument when it cannot be one."""
    kind = port._kind
    try:
        if kind == MAP and isinstance(thing, dict):
            # Plain numbers are of the type that the model declares for the values.
            wanted = next((t for name, t in _NUMBERS.items() if f"tensor({name})" in port.type), None)
            thing = {k: np.asarray(v, wanted) if isinstance(v, (int, float)) else v for k, v in thing.items()}
        if kind == OPTIONAL:
            return _quern.Value.optional(None if thing is None else _plain(thing, port._dtype))
        if kind == SEQUENCE and not isinstance(thing, _quern.Value):
            return _quern.Value.sequence([_plain(t, port._dtype) for t in thing])
        return _plain(thing, port._dtype)
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"input '{port.name}' ({port.type}): {error}") from error


def _plain(thing, dtype=0):
    if isinstance(thing, _quern.Value):
        return thing
    if isinstance(thing, dict):
        keys = list(thing)
        if keys and isinstance(keys[0], str):
            key_value = _quern.Value.strings([len(keys)], keys)
        else:
            key_value = _quern.Value.array(np.asarray(keys, np.int64))
        return _quern.Value.map(key_value, [_plain(np.asarray(v)) for v in thing.values()])
    if isinstance(thing, (list, tuple)) and any(isinstance(t, (np.ndarray, list, tuple, dict)) for t in thing):
        return _quern.Value.sequence([_plain(t) for t in thing])
    return _array_value(thing, dtype)


def _array_value(thing, dtype):
    array = np.asarray(thing)
    if array.dtype.kind in "OUST":
        return _quern.Value.strings(list(array.shape), [_text(t) for t in array.ravel().tolist()])
    number = _SUB_BYTE_NUMBERS.get(array.dtype.name, dtype if dtype in _SUB_BYTE and array.dtype.kind in "iu" else 0)
    if number:
        return _quern.Value.array(_pack(array, _SUB_BYTE[number][0]), number, array.shape)
    number = _EXTENDED_NUMBERS.get(array.dtype.name, 0)
    if number:
        array = array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    elif dtype in _EXTENDED and array.dtype.kind == "u" and array.dtype.itemsize == (2 if dtype == 16 else 1):
        number = dtype  # the bits, where ml_dtypes is not there
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # Memory that the C ABI does not take as it is.
    if not array.flags.aligned or any(s < 0 or s % array.itemsize for s in array.strides):
        array = array.copy(order="C")
    return _quern.Value.array(array, number)


def _text(thing):
    return thing.decode() if isinstance(thing, bytes) else str(thing)


def from_value(value):
    """The Python object that a Value stands for: array, list, dict or None."""
    kind = value.kind
    if kind == TENSOR:
        return _from_tensor(value)
    if kind == STRINGS:
        array = np.empty(len(texts := value.to_strings()), dtype=object)
        array[:] = texts
        return array.reshape(value.shape)
    if kind == SEQUENCE:
        return value.to_list(from_value)
    if kind == OPTIONAL:
        return from_value(value[0]) if len(value) else None
    if kind == MAP:
        return value.to_dict(from_value)
    return None


def _from_tensor(value):
    array, dtype = value.to_array(), value.dtype
    if dtype in _SUB_BYTE:
        return _unpack(array, value.shape, *_SUB_BYTE[dtype])
    if dtype in _EXTENDED and ml_dtypes is not None and hasattr(ml_dtypes, _EXTENDED[dtype]):
        return array.view(getattr(ml_dtypes, _EXTENDED[dtype]))
    return array


def _pack(array, bits):
    """A row of bits, the first element's lowest; of elements that have a byte each."""
    if array.dtype.itemsize != 1:
        raise ValueError(f"elements of {array.dtype}; types below a byte come with one byte for each")
    flat = np.ascontiguousarray(array).view(np.uint8).reshape(-1, 1)
    return np.packbits(np.unpackbits(flat, axis=1, count=bits, bitorder="little"), bitorder="little")


def _unpack(packed, shape, bits, signed, name):
    count = int(np.prod(shape, dtype=np.int64))
    each = np.unpackbits(packed, count=count * bits, bitorder="little").reshape(count, bits)
    flat = np.packbits(each, axis=1, bitorder="little").reshape(count)
    if signed:
        flat = (flat.astype(np.int8) ^ (1 << (bits - 1))) - (1 << (bits - 1))
    extended = getattr(ml_dtypes, name, None)  # the low bits of a byte, extended by the sign
    return (flat if extended is None else flat.view(extended)).reshape(shape)
