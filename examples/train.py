"""Training of an updatable Core ML classifier on pictures; the result is saved and opened again.

    python examples/train.py --model examples/data/digits.mlmodel \\
        --samples tools/demo_model/held_out.npz --save learned.mlmodel

The samples are a .npz with "images" [n, height, width], whose largest number is white, and "labels"
[n]. The last quarter is kept apart to measure what was learned. The model's own settings (epochs,
rate, size of the mini-batches) are taken unless the options say otherwise.

Prints the loss and the accuracy of each epoch, and the accuracy on the samples kept
apart before and after. The saved file is opened anew; the exit status is 1 if the saved
model predicts anything else than the one that was trained.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import vknn


def read_samples(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images as uint8 from 0 (black) to 255, and labels."""
    with np.load(path) as arrays:
        images, labels = arrays["images"].astype(np.float64), arrays["labels"]
    return np.rint(images * (255 / images.max())).astype(np.uint8), labels


def label_output(session: vknn.Session) -> str:
    """The name of the label that a classifier predicts: the output that is a single value."""
    names = [spec.name for spec in session.outputs if spec.shape == ()]
    if not names:
        raise SystemExit("the model is not a classifier")
    return names[0]


def predict(session: vknn.Session, images: np.ndarray) -> np.ndarray:
    """The label of each image."""
    name, label = session.inputs[0].name, label_output(session)
    return np.array([session.run({name: image})[label] for image in images])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = Path(__file__).resolve().parents[1]
    model, samples = root / "examples/data/digits.mlmodel", root / "tools/demo_model/held_out.npz"
    parser.add_argument("--model", type=Path, default=model, help="an updatable .mlmodel")
    parser.add_argument("--samples", type=Path, default=samples, help="images and labels, .npz")
    parser.add_argument("--save", type=Path, default=Path("learned.mlmodel"))
    parser.add_argument("--epochs", type=int, help="default: what the model says")
    parser.add_argument("--learning-rate", type=float, help="default: what the model says")
    parser.add_argument("--mini-batch-size", type=int, help="default: what the model says")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the samples (1)")
    parser.add_argument("--device", default="auto", help="auto, vulkan:1, numpy or part of a name")
    options = parser.parse_args(arguments)
    images, labels = read_samples(options.samples)
    apart = len(images) - len(images) // 4
    with vknn.Session(options.model, device=options.device) as session:
        before = np.mean(predict(session, images[apart:]) == labels[apart:])
        result = session.update(
            {session.inputs[0].name: images[:apart], label_output(session): labels[:apart]},
            epochs=options.epochs,
            learning_rate=options.learning_rate,
            mini_batch_size=options.mini_batch_size,
            seed=options.seed,
        )
        for epoch, loss in enumerate(result.losses):
            right = result.metrics["accuracy"][epoch]
            print(f"epoch {epoch + 1:3}  loss {loss:.4f}  accuracy {right:.1%}")
        trained = predict(session, images[apart:])
        session.save(options.save)
    after = np.mean(trained == labels[apart:])
    print(f"{apart} samples, {result.steps} steps")
    print(f"accuracy on {len(images) - apart} others: {before:.1%} before, {after:.1%} after")
    with vknn.Session(options.save, device=options.device) as session:
        same = bool((predict(session, images[apart:]) == trained).all())
    print(f"{options.save} predicts {'the same' if same else 'something else'}")
    return 0 if same else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except vknn.VknnError as error:
        raise SystemExit(f"error: {error}") from None
