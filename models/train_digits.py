#!/usr/bin/env python3
"""Trains the demo model on scikit-learn's bundled 8x8 digits and writes everything that models/ ships.

    train_digits.py [OUT_FOLDER] [--epochs N]

Needs numpy, onnx, onnxruntime (its quantizer makes the int8 form), pillow and scikit-learn (the data, nothing else).
Training is plain numpy: two 3x3 convolutions with bias, ReLU and 2x2 max-pooling, one dense layer, Adam, images
shifted by up to one pixel. Writes digits.onnx, digits_qdq.onnx, heldout_images.npy, heldout_labels.npy, labels.txt
and a few held-out digits as PNG.
"""

import argparse
import pathlib
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 7
HELD_OUT = 360  # of 1797
CHANNELS = (16, 32)


def load_digits():
    """Images (n, 1, 8, 8) in 0..1 and labels (n,), shuffled; the values are those of the PNG files, k/255."""
    from sklearn.datasets import load_digits as load

    data = load()
    pixels = np.rint(data.images * (255.0 / 16.0)).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(pixels))
    return (pixels[order] / np.float32(255.0))[:, None], data.target[order].astype(np.int64)


def columns(x):
    """3x3 patches of x (n, c, h, w) with zero padding 1: (n, h, w, c, 3, 3)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # (n, c, h, w, 3, 3)
    return view.transpose(0, 2, 3, 1, 4, 5)


def conv(x, weight, bias):
    """Returns relu(conv(x)) and what the backward pass needs."""
    n, _, h, w = x.shape
    cols = columns(x).reshape(n * h * w, -1)
    out = cols @ weight.reshape(weight.shape[0], -1).T + bias
    out = np.maximum(out, 0).reshape(n, h, w, -1).transpose(0, 3, 1, 2)
    return out, (x.shape, cols, out)


def conv_backward(grad, saved, weight):
    shape, cols, out = saved
    n, c, h, w = shape
    flat = (grad * (out > 0)).transpose(0, 2, 3, 1).reshape(n * h * w, -1)
    grad_weight = (flat.T @ cols).reshape(weight.shape)
    patches = (flat @ weight.reshape(weight.shape[0], -1)).reshape(n, h, w, c, 3, 3)
    grad_x = np.zeros((n, c, h + 2, w + 2), np.float32)
    for dy in range(3):
        for dx in range(3):
            grad_x[:, :, dy : dy + h, dx : dx + w] += patches[..., dy, dx].transpose(0, 3, 1, 2)
    return grad_x[:, :, 1:-1, 1:-1], grad_weight, flat.sum(0)


def pool(x):
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // 2, 2, w // 2, 2)
    out = blocks.max((3, 5))
    first = blocks == out[:, :, :, None, :, None]
    return out, first / first.sum((3, 5), keepdims=True).astype(np.float32)


def pool_backward(grad, share):
    n, c, h, _, w, _ = share.shape
    return (share * grad[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


def forward(x, p):
    a, saved1 = conv(x, p["conv1.weight"], p["conv1.bias"])
    b, share1 = pool(a)
    c, saved2 = conv(b, p["conv2.weight"], p["conv2.bias"])
    d, share2 = pool(c)
    flat = d.reshape(len(x), -1)
    logits = flat @ p["dense.weight"].T + p["dense.bias"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True), (saved1, share1, saved2, share2, flat, d.shape)


def gradients(x, y, p):
    prob, (saved1, share1, saved2, share2, flat, shape) = forward(x, p)
    delta = prob.copy()
    delta[np.arange(len(y)), y] -= 1
    delta /= len(y)
    g = {"dense.weight": delta.T @ flat, "dense.bias": delta.sum(0)}
    back = pool_backward((delta @ p["dense.weight"]).reshape(shape), share2)
    back, g["conv2.weight"], g["conv2.bias"] = conv_backward(back, saved2, p["conv2.weight"])
    _, g["conv1.weight"], g["conv1.bias"] = conv_backward(pool_backward(back, share1), saved1, p["conv1.weight"])
    return g


def train(images, labels, epochs):
    rng = np.random.default_rng(SEED)
    c1, c2 = CHANNELS

    def normal(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2.0 / np.prod(shape[1:]))).astype(np.float32)

    p = {
        "conv1.weight": normal(c1, 1, 3, 3),
        "conv1.bias": np.zeros(c1, np.float32),
        "conv2.weight": normal(c2, c1, 3, 3),
        "conv2.bias": np.zeros(c2, np.float32),
        "dense.weight": normal(10, c2 * 4),
        "dense.bias": np.zeros(10, np.float32),
    }
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(w) for k, w in p.items()}
    step, batch = 0, 64
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(images))
        for i in range(0, len(order), batch):
            pick = order[i : i + batch]
            dy, dx = rng.integers(-1, 2, 2)
            shifted = np.roll(np.pad(images[pick], ((0, 0), (0, 0), (1, 1), (1, 1))), (dy, dx), (2, 3))[
                :, :, 1:-1, 1:-1
            ]
            step += 1
            for k, grad in gradients(shifted, labels[pick], p).items():
                m[k] = 0.9 * m[k] + 0.1 * grad
                v[k] = 0.999 * v[k] + 0.001 * grad * grad
                p[k] -= (
                    rate * (m[k] / (1 - 0.9**step)) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8) + rate * 1e-2 * p[k]
                ).astype(np.float32)
    return p


def to_onnx(p):
    conv_args = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    pool_args = dict(kernel_shape=[2, 2], strides=[2, 2])
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **conv_args),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", **pool_args),
        helper.make_node("Conv", ["p1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **conv_args),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("MaxPool", ["r2"], ["p2"], "pool2", **pool_args),
        helper.make_node("Flatten", ["p2"], ["flat"], "flatten", axis=1),
        helper.make_node("Gemm", ["flat", "dense.weight", "dense.bias"], ["logits"], "dense", transB=1),
        helper.make_node("Softmax", ["logits"], ["probability"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(w.astype(np.float32), k) for k, w in p.items()],
    )
    model = helper.make_model(
        graph, producer_name="quern models/train_digits.py", ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def quantize(model, images, path):
    """int8 QDQ: uint8 activations calibrated on training images, int8 weights per output channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.batches = iter(np.split(images[:320], 10))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"image": batch}

    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder) / "plain.onnx"
        onnx.save(model, plain)
        quantize_static(
            str(plain),
            str(path),
            Reader(),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["Conv", "Relu", "MaxPool", "Flatten", "Gemm"],
        )
    quantized = onnx.load(path)
    quantized.producer_name = model.producer_name
    onnx.checker.check_model(quantized, full_check=True)
    onnx.save(quantized, path)


def accuracy(path, images, labels):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return float((session.run(None, {"image": images})[0].argmax(1) == labels).mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent)
    parser.add_argument("--epochs", type=int, default=60)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    images, labels = load_digits()
    held_images, held_labels = images[:HELD_OUT], labels[:HELD_OUT]
    parameters = train(images[HELD_OUT:], labels[HELD_OUT:], args.epochs)
    model = to_onnx(parameters)
    onnx.save(model, args.out / "digits.onnx")
    quantize(model, images[HELD_OUT:], args.out / "digits_qdq.onnx")
    np.save(args.out / "heldout_images.npy", held_images)
    np.save(args.out / "heldout_labels.npy", held_labels)
    (args.out / "labels.txt").write_text("".join(f"{d}\n" for d in range(10)))
    from PIL import Image

    for digit in (0, 3, 5, 8, 9):
        index = int(np.flatnonzero(held_labels == digit)[0])
        pixels = np.rint(held_images[index, 0] * 255).astype(np.uint8)
        Image.fromarray(pixels).save(args.out / f"digit_{digit}.png", optimize=True)
    for name in ("digits.onnx", "digits_qdq.onnx"):
        right = accuracy(args.out / name, held_images, held_labels)
        print(f"{name}: accuracy on {HELD_OUT} held-out digits {100 * right:.2f} %")


if __name__ == "__main__":
    main()
