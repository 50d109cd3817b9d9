"""MindSpore as written for ModelArts: data by MoXing into /cache, a shard per rank, the model back to train_url."""

import argparse
import os
import sys
from glob import glob

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import nn
from mindspore.communication import get_rank, init

import moxing as mox

RATE = 0.5


def read_shard(folder: str, shards: int, shard: int) -> tuple[np.ndarray, np.ndarray]:
    """All x and all y of one shard of the data."""
    files = sorted(glob(f"{folder}/*.csv"))
    names = {"column_names": ["x", "y"], "column_defaults": [0.0, 0.0]}
    lines = ds.CSVDataset(files, **names, shuffle=False, num_shards=shards, shard_id=shard)
    table = np.array(list(lines.create_tuple_iterator(num_epochs=1, output_numpy=True)), np.float32)
    return table[:, :1], table[:, 1:]


def reached(x: np.ndarray, y: np.ndarray, steps: int) -> float:
    """The weight that gradient descent from 0 reaches on this data, in closed form."""
    square, product = float((x * x).mean()), float((x * y).mean())
    return product / square * (1 - (1 - 2 * RATE * square) ** steps)


def train(x: np.ndarray, y: np.ndarray, steps: int) -> nn.Cell:
    network = nn.Dense(1, 1, weight_init="zeros", has_bias=False)
    optimizer = nn.SGD(network.trainable_params(), learning_rate=RATE)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)  # averages the gradients of all ranks
    step.set_train()
    for _ in range(steps):
        step(ms.Tensor(x), ms.Tensor(y))
    return network


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_url", required=True)
    parser.add_argument("--train_url", required=True)
    parser.add_argument("--epoch_size", type=int, default=10)
    args = parser.parse_args()
    device, size = int(os.environ["DEVICE_ID"]), int(os.environ["RANK_SIZE"])

    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_device("CPU")
    init()
    ms.set_auto_parallel_context(device_num=size, parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
    rank = get_rank()

    data = f"/cache/data/{device}"  # DEVICE_ID counts the devices of one node
    mox.file.copy_parallel(src_url=args.data_url, dst_url=data)
    own = read_shard(f"{data}/train", size, rank)
    network = train(*own, args.epoch_size)
    if rank == 0:
        os.makedirs("/cache/output", exist_ok=True)
        ms.save_checkpoint(network, "/cache/output/model.ckpt")
        mox.file.copy_parallel(src_url="/cache/output", dst_url=args.train_url)

    weight = network.weight.asnumpy().item()
    expected = reached(*read_shard(f"{data}/train", 1, 0), args.epoch_size)
    alone = reached(*own, args.epoch_size)
    print(f"rank {rank} of {size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    sys.exit(main())
