"""Matrix products by oneDNN of PyPI's onednn-devel, through its C interface, on the threads that the process may use.

Run as a program it times one product: onednn.py TYPE MxNxK SECONDS, and prints the median seconds of a call and the
implementation that the library chose; exit status 3 and a line when it has none. ukernels starts it so, because the
library reads its environment (where its OpenCL CPU device lies) when it is loaded.
"""

import ctypes as C
import os
import pathlib
import statistics
import sys
import time

# Of dnnl_types.h and dnnl_common_types.h.
CPU, IN_ORDER, ANY, A, AB, ALLOCATE = 1, 1, 1, 2, 3, C.c_void_p(-1)
F16, BF16, F32, S32, S8, U8, S4, U4 = 1, 2, 3, 4, 5, 6, 11, 12
SRC, DST, WEIGHTS, SCALES = 1, 17, 33, 4096
QUERY_WEIGHTS_MD, QUERY_IMPLEMENTATION = 131, 8
FPMATH_ANY = 3
BLOCK = 32
# source, weights, destination; what has scales: "blocks" of K of the weights, "columns" of them, "all" (columns, source
# and destination, as for requantized results); "any": nothing, but the arithmetic is free
TYPES = {
    "f32": (F32, F32, F32, ""),
    "bf16": (BF16, BF16, F32, ""),
    "f16": (F16, F16, F32, ""),
    "f32f16": (F32, F16, F32, "any"),
    "u8i8": (U8, S8, S32, ""),
    "i8i8": (S8, S8, S32, ""),
    "i8i8i8": (S8, S8, S8, "all"),
    "i8i4": (S8, S4, F32, "columns"),
    "f32u4": (F32, U4, F32, "blocks"),
    "f32u8": (F32, U8, F32, "blocks"),
}


class Unsupported(Exception):
    pass


class Library:
    def __init__(self, path):
        self.lib = C.CDLL(str(path))
        self.lib.dnnl_primitive_desc_query_md.restype = C.c_void_p
        self.engine, self.stream = C.c_void_p(), C.c_void_p()
        self.call("dnnl_engine_create", C.byref(self.engine), CPU, C.c_size_t(0))
        self.call("dnnl_stream_create", C.byref(self.stream), self.engine, IN_ORDER)

    def call(self, name, *args):
        status = getattr(self.lib, name)(*args)
        if status:
            raise Unsupported(f"{name}: status {status}")

    def desc(self, dims, dtype, tag):
        md = C.c_void_p()
        array = (C.c_int64 * 12)(*dims)
        self.call("dnnl_memory_desc_create_with_tag", C.byref(md), len(dims), array, dtype, tag)
        return md

    def memory(self, md):
        memory = C.c_void_p()
        self.call("dnnl_memory_create", C.byref(memory), md, self.engine, ALLOCATE)
        return memory

    def fill(self, memory, md):
        """Small values of any type: bytes that are no NaN in any of them."""
        self.lib.dnnl_memory_desc_get_size.restype = C.c_size_t
        size, data = self.lib.dnnl_memory_desc_get_size(md), C.c_void_p()
        self.call("dnnl_memory_map_data", memory, C.byref(data))
        pattern = bytes((i * 37 + 11) % 59 for i in range(251))
        C.memmove(data, (pattern * (size // len(pattern) + 1))[:size], size)
        self.call("dnnl_memory_unmap_data", memory, data)

    def matmul(self, kind, m, n, k):
        """A function that computes one product, and the name of what computes it."""
        src, weights, dst, scaled = TYPES[kind]
        src_md, dst_md = self.desc((m, k), src, AB), self.desc((m, n), dst, AB)
        attributes = C.c_void_p()
        scales = []  # operand, shape
        if scaled:
            self.call("dnnl_primitive_attr_create", C.byref(attributes))
        if scaled in ("blocks", "any"):
            self.call("dnnl_primitive_attr_set_fpmath_mode_v2", attributes, FPMATH_ANY, 1)
        if scaled == "blocks":
            groups = (C.c_int64 * 12)(BLOCK, 1)
            self.call("dnnl_primitive_attr_set_scales", attributes, WEIGHTS, 3, 2, groups, F32)
            scales = [(WEIGHTS, (k // BLOCK, n))]
        elif scaled in ("columns", "all"):
            self.call("dnnl_primitive_attr_set_scales_mask", attributes, WEIGHTS, 2)
            scales = [(WEIGHTS, (n,))]
            for operand in (SRC, DST) if scaled == "all" else ():
                self.call("dnnl_primitive_attr_set_scales_mask", attributes, operand, 0)
                scales.append((operand, (1,)))
        wanted, primitive_desc, primitive = self.desc((k, n), weights, ANY), C.c_void_p(), C.c_void_p()
        self.call(
            "dnnl_matmul_primitive_desc_create",
            C.byref(primitive_desc),
            self.engine,
            src_md,
            wanted,
            None,
            dst_md,
            attributes,
        )
        self.call("dnnl_primitive_create", C.byref(primitive), primitive_desc)
        weights_md = C.c_void_p(self.lib.dnnl_primitive_desc_query_md(primitive_desc, QUERY_WEIGHTS_MD, 0))
        name = C.c_char_p()
        self.call("dnnl_primitive_desc_query", primitive_desc, QUERY_IMPLEMENTATION, 0, C.byref(name))
        operands = [(SRC, src_md), (WEIGHTS, weights_md), (DST, dst_md)]
        operands += [(SCALES | of, self.desc(shape, F32, A if len(shape) == 1 else AB)) for of, shape in scales]

        class Argument(C.Structure):
            _fields_ = [("arg", C.c_int), ("memory", C.c_void_p)]

        arguments = (Argument * len(operands))()
        for i, (arg, md) in enumerate(operands):
            memory = self.memory(md)
            if arg != DST:
                self.fill(memory, md)
            arguments[i] = Argument(arg, memory)

        def run():
            self.call("dnnl_primitive_execute", primitive, self.stream, len(operands), arguments)
            self.call("dnnl_stream_wait", self.stream)

        return run, name.value.decode()


def find():
    """The library of this interpreter's environment; None where the package is not there."""
    path = pathlib.Path(sys.prefix) / "lib/libdnnl.so.3"
    return path if path.exists() else None


def environment():
    """What a process that loads it needs: where its own libraries and its OpenCL CPU device are."""
    lib = pathlib.Path(sys.prefix) / "lib"
    return os.environ | {"LD_LIBRARY_PATH": str(lib), "OCL_ICD_FILENAMES": str(lib / "libintelocl.so")}


def main(kind, shape, seconds):
    m, n, k = map(int, shape.split("x"))
    try:
        run, name = Library(find()).matmul(kind, m, n, k)
        run()
    except Unsupported as reason:
        print(reason)
        return 3
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times), name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
