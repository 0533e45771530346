"""Networks of ncnn's benchmark page that are written here by what was published of them.

ResNet-50: He et al., "Deep Residual Learning for Image Recognition" (2015), table 1, with the
stride in a block's first convolution. VGG-16: Simonyan and Zisserman, "Very Deep Convolutional
Networks for Large-Scale Image Recognition" (2014), table 1, column D.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

#: Pixels of a side, of both.
SIDE = 224
CLASSES = 1000


class _File:
    """Layers of a .param file, each with one output of its own name."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._blobs = 0
        self.layer("Input", "data", [], {0: SIDE, 1: SIDE, 2: 3})

    def layer(
        self,
        kind: str,
        name: str,
        inputs: list[str],
        params: dict[int, int],
        outputs: list[str] | None = None,
    ) -> str:
        outputs = outputs or [name]
        self._blobs += len(outputs)
        words = [kind, name, str(len(inputs)), str(len(outputs)), *inputs, *outputs]
        self._lines.append(" ".join([*words, *(f"{k}={v}" for k, v in params.items())]))
        return outputs[0]

    def convolution(
        self, name: str, x: str, sizes: tuple[int, int, int], stride: int = 1, relu: bool = True
    ) -> str:
        """``sizes``: channels in and out, side of the kernel, padded to keep the pixels."""
        channels, outputs, side = sizes
        params = {0: outputs, 1: side, 3: stride, 4: side // 2, 5: 1}
        params |= {6: channels * outputs * side * side, 9: int(relu)}
        return self.layer("Convolution", name, [x], params)

    def dense(self, name: str, x: str, inputs: int, outputs: int, relu: bool = False) -> str:
        params = {0: outputs, 1: 1, 2: inputs * outputs, 9: int(relu)}
        return self.layer("InnerProduct", name, [x], params)

    def text(self) -> str:
        return "\n".join(["7767517", f"{len(self._lines)} {self._blobs}", *self._lines, ""])


def resnet50() -> str:
    """ResNet-50 as the text of a .param file."""
    file = _File()
    x = file.convolution("conv1", "data", (3, 64, 7), 2)
    x = file.layer("Pooling", "pool1", [x], {1: 3, 2: 2})
    channels = 64
    for stage, (middle, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = _bottleneck(file, f"res{stage}_{block}", x, (channels, middle), stride)
            channels = 4 * middle
    x = file.layer("Pooling", "pool5", [x], {0: 1, 4: 1})
    x = file.dense("fc", x, channels, CLASSES)
    file.layer("Softmax", "output", [x], {})
    return file.text()


def _bottleneck(file: _File, name: str, x: str, sizes: tuple[int, int], stride: int) -> str:
    channels, middle = sizes
    forks = [f"{name}_a", f"{name}_b"]
    short, y = file.layer("Split", f"{name}_split", [x], {}, forks), forks[1]
    if channels != 4 * middle:
        sides = (channels, 4 * middle, 1)
        short = file.convolution(f"{name}_short", short, sides, stride, relu=False)
    y = file.convolution(f"{name}_1", y, (channels, middle, 1), stride)
    y = file.convolution(f"{name}_2", y, (middle, middle, 3))
    y = file.convolution(f"{name}_3", y, (middle, 4 * middle, 1), relu=False)
    y = file.layer("Eltwise", f"{name}_sum", [short, y], {0: 1})
    return file.layer("ReLU", f"{name}_relu", [y], {})


def vgg16() -> str:
    """VGG-16 as the text of a .param file."""
    file = _File()
    x, channels = "data", 3
    for stage, (width, layers) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))):
        for layer in range(layers):
            x = file.convolution(f"conv{stage + 1}_{layer + 1}", x, (channels, width, 3))
            channels = width
        x = file.layer("Pooling", f"pool{stage + 1}", [x], {1: 2, 2: 2})
    pixels = (SIDE // 2**5) ** 2
    x = file.dense("fc6", x, channels * pixels, 4096, relu=True)
    x = file.dense("fc7", x, 4096, 4096, relu=True)
    x = file.dense("fc8", x, 4096, CLASSES)
    file.layer("Softmax", "output", [x], {})
    return file.text()


#: Name -> its file's text.
MADE: dict[str, Callable[[], str]] = {"resnet50": resnet50, "vgg16": vgg16}
#: Name -> its input's shape, as NETWORKS of the comparison has them.
SHAPES = dict.fromkeys(MADE, (3, SIDE, SIDE))


def written(name: str, folder: Path) -> Path:
    """The .param file of a made network, in a folder."""
    path = folder / f"{name}.param"
    path.write_text(MADE[name]())
    return path
