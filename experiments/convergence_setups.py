"""The runs of experiments/convergence: which networks, under which codecs, with which course."""
import dataclasses
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
BANDWIDTHS = ["8 Mbps", "100 Mbps"]
PLANNED_AT = BANDWIDTHS[0]  # the codecs are decided there, and kept where the same run is timed elsewhere

PLATFORM = """name = "homes"
description = "Four homes with a consumer GPU each"

[[site]]
name = "homes"
network = {{bandwidth = "{bandwidth}", latency = "10 ms"}}

[[site.host]]
name = "home"
count = 4
gpu = "RTX 3080"
"""


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    what: str
    model: pathlib.Path
    shape: tuple    # options of a plan
    stages: tuple   # (name, ops) by stage: the same work on each device, cut where one tensor crosses
    cuts: tuple     # the tensors that cross
    train: tuple    # options of training
    steps: int
    every: int      # steps between two evaluations
    batches: int    # micro-batches of an evaluation
    train_data: str
    held_out: str
    accuracy: bool  # of a classifier; a language model is told by its loss


TASKS = [
    Task("gpt2", "GPT-2 of 4 blocks, 128 features, on bytes of English text", HERE / "models/mini-gpt2/config.json",
         ("--seq", "64", "--micro-batch", "8", "--micro-batches", "2", "--optimizer", "adam"),
         (("embedding-block 0", "input_ids..h.0.add"), ("block 1", "h.1.ln_1..h.1.add"),
          ("block 2", "h.2.ln_1..h.2.add"), ("block 3-head", "h.3.ln_1..loss")),
         ("h.0.add", "h.1.add", "h.2.add"), ("--learning-rate", "1e-3"), 200, 40, 32,
         "text:{data}/train.txt", "text:{data}/held-out.txt", False),
    Task("resnet", "ResNet of 8 blocks on Fashion-MNIST", HERE / "resnet_mini.toml",
         ("--micro-batch", "16", "--micro-batches", "2", "--optimizer", "adam"),
         (("stem-block2", "image..block2.out"), ("block3-block4", "block3.1.conv..block4.out"),
          ("block5-block6", "block5.1.conv..block6.out"), ("block7-head", "block7.1.conv..loss")),
         ("block2.out", "block4.out", "block6.out"), ("--learning-rate", "1e-3"), 300, 60, 64,
         "idx:{data}/train", "idx:{data}/held-out", True),
]


@dataclasses.dataclass(frozen=True)
class Setup:
    name: str
    compress: str
    after: int = 0      # per cent of the steps that go exact first
    warmup: int = 0     # per cent of the steps in which the ratio grows
    feedback: str = "all"
    over: str = "tensor"
    seeds: tuple = (1,)


SETUPS = [
    Setup("dense", "none", seeds=(1, 2, 3)),
    Setup("fp16", "fp16"),
    Setup("int8", "int8"),
    Setup("hadamard-int4", "hadamard-int4", seeds=(1, 2, 3)),
    Setup("aq", "aq"),
    Setup("powersgd", "powersgd"),
    Setup("uniform-topk", "uniform-topk:8"),
    Setup("adatopk-slack", "adatopk-slack"),
    # AdaTopK both ways: as it is, without feedback, by rows, slowly begun
    Setup("adatopk", "adatopk:8"),
    Setup("adatopk, no feedback", "adatopk:8", feedback="none"),
    Setup("adatopk by rows", "adatopk:6", feedback="gradients", over="rows"),
    Setup("adatopk slow start", "adatopk:6", after=2, warmup=10, feedback="gradients", over="rows"),
    # AdaTopK on gradients alone: activations in four bits
    Setup("int4/adatopk", "hadamard-int4/adatopk:8", feedback="gradients"),
    Setup("int4/adatopk by rows", "hadamard-int4/adatopk:6", feedback="gradients", over="rows"),
    Setup("int4/adatopk by rows, R 8", "hadamard-int4/adatopk:8", feedback="gradients", over="rows", seeds=(1, 2, 3)),
    Setup("int4/adatopk slow start", "hadamard-int4/adatopk:7", after=2, warmup=10, feedback="gradients", over="rows"),
]
QUICK = ["dense", "int4/adatopk by rows"]
