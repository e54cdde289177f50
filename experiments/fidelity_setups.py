"""The set-ups of experiments/fidelity: which network, on which links, by which policy, order and codec."""
import dataclasses
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
MICRO_BATCHES = 4


def everywhere(value, ranks):
    return [[value] * ranks for _ in range(ranks)]


def by_pair(rows, ranks):
    return [row[:ranks] for row in rows[:ranks]]


# Links by name, for so many ranks: Mbps and ms, [from][to].
LINKS = {
    "slow": lambda n: (everywhere(8, n), everywhere(50, n)),
    "medium": lambda n: (everywhere(100, n), everywhere(10, n)),
    "fast": lambda n: (everywhere(1000, n), everywhere(1, n)),
    "mixed": lambda n: (by_pair([[0, 1000, 8, 100], [1000, 0, 100, 8], [8, 100, 0, 100], [100, 8, 100, 0]], n),
                        by_pair([[0, 1, 50, 10], [1, 0, 10, 50], [50, 10, 0, 10], [10, 50, 10, 0]], n)),
    "asymmetric": lambda n: (by_pair([[0, 100, 100, 20], [20, 0, 100, 100], [20, 8, 0, 100], [8, 20, 20, 0]], n),
                             by_pair([[0, 10, 10, 30], [20, 0, 10, 10], [20, 50, 0, 10], [50, 20, 20, 0]], n)),
}

MODELS = {  # small enough that two cores carry four ranks: see experiments/fidelity
    "gpt2": ["--model", HERE / "models/tiny-gpt2/config.json", "--micro-batch", "4", "--seq", "64"],
    "resnet": ["--model", "resnet18", "--micro-batch", "4", "--image-size", "32"],
    "unet": ["--model", HERE / "unet.toml", "--micro-batch", "2", "--image-size", "32"],
}
POLICIES = ["equal-number", "equal-compute", "op-fence"]


@dataclasses.dataclass(frozen=True)
class Setup:
    model: str
    ranks: int
    links: str
    order: str
    codec: str
    policy: str
    held_out: bool

    @property
    def group(self):
        """What the policies are ranked within."""
        return f"{self.model}-{self.ranks}-{self.links}-{self.order}-{self.codec.replace(':', '')}"

    @property
    def name(self):
        return f"{self.group}-{self.policy}"


GROUPS = [  # by all policies
    ("gpt2", 4, "slow", "1f1b", "adatopk:100"),
    ("gpt2", 4, "medium", "1f1b", "none"),
    ("gpt2", 3, "mixed", "gpipe", "int8"),
    ("gpt2", 2, "fast", "gpipe", "none"),
    ("resnet", 2, "fast", "1f1b", "none"),
    ("resnet", 4, "asymmetric", "gpipe", "none"),
    ("unet", 3, "medium", "1f1b", "int8"),
    ("unet", 2, "slow", "gpipe", "adatopk:100"),
]
SINGLES = [
    ("resnet", 3, "slow", "1f1b", "adatopk:100", "equal-compute"),
    ("unet", 4, "asymmetric", "1f1b", "none", "equal-compute"),
    ("gpt2", 4, "slow", "gpipe", "int8", "equal-number"),
    ("gpt2", 4, "asymmetric", "1f1b", "int8", "op-fence"),
]
QUICK = ["gpt2-4-medium-1f1b-none-equal-number", "gpt2-4-medium-1f1b-none-equal-compute",
         "gpt2-4-medium-1f1b-none-op-fence", "unet-2-slow-gpipe-adatopk100-equal-number",
         "resnet-3-slow-1f1b-adatopk100-equal-compute"]


def setups():
    """All, every second one held out from calibration."""
    rows = [(*group, policy) for group in GROUPS for policy in POLICIES] + SINGLES
    return [Setup(*row, held_out=index % 2 == 1) for index, row in enumerate(rows)]
