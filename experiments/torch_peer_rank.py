"""One rank of PyTorch's own pipeline (torch.distributed.pipelining, gloo, CPU) on the GPT-2 that a config.json describes;
experiments/torch_peer starts it under mpirun, which tells it its rank. Rank 0 prints a line of JSON.

The same network as the product's: embeddings, blocks, final norm, head tied to the embedding, dropout where the config says
so, AdamW without decay. Blocks are shared out evenly. The two copies of the tied weight add their gradients, as the
product's do. Steps are timed between barriers at rank 0.

Usage: torch_peer_rank.py CONFIG MICRO_BATCH SEQUENCE MICRO_BATCHES ORDER STEPS
"""
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn import functional

WARM_UP = 3


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        width = config["n_embd"]
        self.heads = config["n_head"]
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(config["resid_pdrop"])

    def forward(self, x):  # B, T, C
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                   for part in self.c_attn(self.ln_1(x)).split(c, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.c_proj(mixed.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh")))


class Part(nn.Module):
    """The blocks of one rank, with what stands before the first and behind the last."""

    def __init__(self, config, rank, ranks):
        super().__init__()
        layers, width = config["n_layer"], config["n_embd"]
        mine = range(rank * layers // ranks, (rank + 1) * layers // ranks)
        self.first, self.last = rank == 0, rank == ranks - 1
        if self.first or self.last:
            self.wte = nn.Embedding(config["vocab_size"], width)
        if self.first:
            self.wpe = nn.Embedding(config["n_positions"], width)
            self.drop = nn.Dropout(config["embd_pdrop"])
        self.blocks = nn.ModuleList(Block(config) for _ in mine)
        if self.last:
            self.ln_f = nn.LayerNorm(width)

    def forward(self, x):
        if self.first:
            x = self.drop(self.wte(x) + self.wpe(torch.arange(x.shape[1])))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight) if self.last else x


class Stage(PipelineStage):
    """PyTorch 2.9 first sends an int64 to each neighbour that expects a float, which gloo refuses. It is a greeting that
    NCCL needs and gloo does not: left out."""

    def _get_init_p2p_neighbors_ops(self):
        return []


def cross_entropy(logits, classes):
    return functional.cross_entropy(logits.flatten(0, 1), classes.flatten())


def main():
    config = json.load(open(sys.argv[1]))
    micro_batch, sequence, micro_batches = map(int, sys.argv[2:5])
    order, steps = sys.argv[5], int(sys.argv[6])
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    ends = dist.new_group([0, ranks - 1])

    part = Part(config, rank, ranks)
    stage = Stage(part, rank, ranks, torch.device("cpu"))
    schedule = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[order](stage, micro_batches, loss_fn=cross_entropy)
    optimizer = torch.optim.AdamW(part.parameters(), lr=1e-3, weight_decay=0.0)
    shape = (micro_batch * micro_batches, sequence)
    times, losses = [], []
    for _ in range(WARM_UP + steps):
        tokens = torch.randint(config["vocab_size"], shape)
        dist.barrier()
        start = time.monotonic()
        if rank == 0:
            schedule.step(tokens)
        elif rank == ranks - 1:
            losses = []
            schedule.step(target=tokens.roll(-1, 1), losses=losses)
        else:
            schedule.step()
        if part.first != part.last and (part.first or part.last):
            dist.all_reduce(part.wte.weight.grad, group=ends)
        optimizer.step()
        optimizer.zero_grad()
        dist.barrier()
        times.append(time.monotonic() - start)
    if rank == 0:
        print(json.dumps({"step_s": statistics.median(times[WARM_UP:]), "torch": torch.__version__,
                          "spread_s": max(times[WARM_UP:]) - min(times[WARM_UP:])}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
