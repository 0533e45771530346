"""Texts of docs/tflite.md around its tables."""

from __future__ import annotations

INTRODUCTION = """\
# TensorFlow Lite, operator by operator

The builtin operators of TensorFlow Lite in the order of their codes, the element types that its
kernels take, and what vknn has of each.

- *yes*: read, computed with NumPy, and all of it runs on any device with Vulkan 1.1. *host*: some
  of it is computed with NumPy beside the device. *no*: not supported. Empty: TensorFlow Lite's
  kernels do not take the type.
- Operators marked \\* have no kernel in LiteRT 2.3, whose converter writes others in their place.
  They mean what StableHLO says, on the types that it has.
- int8, uint8 and int16 are quantized where the operator computes with them; *hybrid*: float
  activations with integer weights.
- int4, int2 and uint4, which files pack into bytes, stand for weights where the other inputs are
  floats or int8. In arrays each number has a byte (int8, uint8).
- *Options not read*: fields of the operator's options that make no difference to vknn.

Models run as they are stored: channels last, quantized integers in and out as such, with the
reference kernels' results to the last bit. An input takes any size where its shape signature says
-1, and any shape where the file gives it none. Loops, branches and shapes that data decide are
planned as soon as the data are known, and kept for the next time.

- **State.** Variable tensors, variables and hash tables keep their values from run to run, those of
  a loop's body from round to round, until `session.reset_state()`; CALL_ONCE runs once until then.
  A variable is known by its container and shared name, in all subgraphs and signatures. Where its
  last value is larger than READ_VARIABLE declares, it is cut to that, as by LiteRT.
- **Signatures.** `session.run(feeds, signature="decode")` runs one by its own names;
  `session.model.signatures` and `vknn info` list them. `session.model.metadata` has what else the
  file says of itself.
- **Random numbers** are LiteRT's where there is a seed (its low 32 bits count), and go on from run
  to run, inputs of other sizes too (there LiteRT begins anew). Seeded operators in a branch, a loop
  or a composite begin anew whenever that is entered.
- **Weights of 4 and 2 bits** stay packed on the device, and kernels decode them: in
  FULLY_CONNECTED, with scales of channels or of blocks (float activations), in CONV_2D and
  DEPTHWISE_CONV_2D (as LiteRT's kernels take the same codes in bytes; of 2 bits it has none), and
  where GATHER and EMBEDDING_LOOKUP read whole rows. Groups of a
  convolution that fill no vec4s of channels take more room, as those of other weights do.
- **Large files** are mapped, with buffers behind the tables or in files beside the model, which no
  name may lead out of its folder. They must not be written while a session is open.
- **Composites** run as the subgraph that they name. Regions of one operator have a kernel; others
  are computed for all elements at once, or told by their operators where that cannot be.
- **Scatters** drop elements that lie outside one by one, as LiteRT's kernel does.

This page is written by `tools/tflite_table.py`; a test fails when it is out of date.
"""

UNUSUAL_TYPES = """\
## Other element types

Operators that take types which few others take. Unsigned integers of 16 bits and more, complex128
and bfloat16 are computed on the host in any case; *resource*: operators on variables and tables,
whatever they hold.
"""

KERNELS = """\
## Beside LiteRT's default interpreter

LiteRT has its kernels up to three times, and they do not agree: reference kernels
(`OpResolverType.BUILTIN_REF`), optimized ones, and XNNPACK, which `Interpreter(model)` asks first.
vknn has the results of the reference kernels, on both backends: of quantized networks bit by bit,
of float networks within the rounding of float32. So a network in vknn may differ from the same one
in an `Interpreter` that is made without that option, by as much as LiteRT differs from itself. With
LiteRT 2.3, on a photograph, against the reference kernels (share of output elements that differ;
largest difference, where no unit stands of codes):

| model | outputs | optimized | XNNPACK (default) | vknn |
|---|---|---|---|---|
| tf2_mobilenet_v2_1.0_224_ptq | uint8 [1, 1001] | 0.3 %; 12 | 0.5 %; 4 | none |
| mobilenet_v1_0.25_128_quant | uint8 [1, 1001] | none | 0.9 %; 5 | none |
| deeplabv3_mnv2_dm05_pascal_quant | classes of 513 x 513 pixels | 0.5 % | 0.5 % | none |
| style_transfer_dynamic (hybrid) | float32, up to 0.91 | 3e-7 | 0.11 | 2e-7 |
| face_landmark | float32, up to 168 | 1e-4 | 8e-5 | 1e-4 |

Why: the reference kernels bring sums to the output's scale in integers with two roundings (a
doubling high multiplication, then a shift); XNNPACK does it by one float32 product, and the
optimized kernels round elsewhere in a few operators. XNNPACK also has its own way to quantize
activations of hybrid layers. Each difference is of one code where it arises; what stands behind
it, a softmax above all, makes more of it.
"""

HOSTED = """\
## On the host

Integers of 64 bits, unsigned ones of 16 and more, doubles, complex numbers, bfloat16 and strings
are computed there in any case. Of the operators on other types these leave a part to it
([what the ops are](ops.md)):
"""

NOTES = """\
## Where TensorFlow Lite differs

From its documentation, or from vknn where TensorFlow Lite's own result is undefined.
"""
