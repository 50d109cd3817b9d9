"""A workload in the style of AISBench: every rank learns a line between two clouds of points and reports how fast it was.

It runs unchanged on ModelArts (data_url and train_url are URLs, or directories in the newer containers), in single-server
mode (every server trains alone, with any number of cards) and offline (result files in RESULT_PATH).
"""

import argparse
import json
import os
import time

import moxing as mox


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_url", default="")
    parser.add_argument("--train_url", default="")
    parser.add_argument("--enable_modelarts", default="False")
    parser.add_argument("--epoch_size", type=int, default=int(os.environ.get("EPOCH_SIZE", "5")))
    parser.add_argument("--batch_size", type=int, default=8)
    return parser.parse_args()


def seat():
    """This rank, how many train together, and the number of the server."""
    rank, size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    server = int(os.environ.get("VC_TASK_INDEX") or os.environ.get("BATCH_TASK_INDEX") or 0)
    if os.environ.get("SINGLESERVER_MODE") != "True":
        return rank, size, server
    with open(os.environ["RANK_TABLE_FILE"]) as file:
        cards = len(json.load(file)["server_list"][server]["device"])
    return rank % cards, cards, server


def points(folder):
    """The points of a directory, near or far: x, y and the cloud that each belongs to."""
    found = []
    for line in mox.file.read(f"{folder.rstrip('/')}/points.csv").splitlines():
        x, y, cloud = line.split(",")
        found.append((float(x), float(y), int(cloud)))
    return found


def train(data, epochs, batch_size):
    """The weights of a perceptron, and how many samples it saw in how many seconds."""
    weights, samples, start = [0.0, 0.0, 0.0], 0, time.perf_counter()
    for _ in range(epochs):
        for first in range(0, len(data), batch_size):
            for x, y, cloud in data[first : first + batch_size]:
                wrong = cloud - guess(weights, x, y)
                weights = [weights[0] + wrong * x, weights[1] + wrong * y, weights[2] + wrong]
                samples += 1
    return weights, samples, time.perf_counter() - start


def guess(weights, x, y):
    return 1 if weights[0] * x + weights[1] * y + weights[2] > 0 else 0


def accuracy(weights, data):
    return sum(guess(weights, x, y) == cloud for x, y, cloud in data) / len(data)


def report_modelarts(url, rank, size, server, throughput, measured):
    """The result files of ModelArts mode."""
    url = url.rstrip("/")
    single = os.environ.get("SINGLESERVER_MODE") == "True"
    folder = f"{url}/{server}" if single else url
    mox.file.make_dirs(folder)
    mox.file.write(f"{folder}/throughput_{rank}.json", str(throughput))
    if rank == 0:
        mox.file.write(f"{url}/accuracy_{server}.json", str(measured))
        with mox.file.File(f"{url}/accuracy.json", "w") as file:
            file.write(str(measured))
        if not mox.file.exists(f"{url}/ranksize.json"):
            mox.file.write(f"{url}/ranksize.json", str(size))


def report_offline(folder, rank, throughput, measured):
    """The result files of offline mode."""
    with open(f"{folder}/throughput_rank_{rank}", "w") as file:
        file.write(str(throughput))
    if rank == 0:
        with open(f"{folder}/eval_acc.log", "w") as file:
            file.write(str(measured))


def main():
    args = arguments()
    rank, size, server = seat()
    train_data = points(f"{args.data_url}/train" if args.data_url else os.environ["TRAIN_DATA_PATH"])
    eval_data = points(f"{args.data_url}/val" if args.data_url else os.environ["EVAL_DATA_PATH"])
    weights, samples, seconds = train(train_data[rank::size], args.epoch_size, args.batch_size)
    measured, throughput = accuracy(weights, eval_data), samples / seconds
    print(f"rank {rank} of {size} on server {server}: {throughput:.0f} samples/s, accuracy {measured:.3f}")
    if args.train_url:
        report_modelarts(args.train_url, rank, size, server, throughput, measured)
    else:
        report_offline(os.environ["RESULT_PATH"], rank, throughput, measured)


if __name__ == "__main__":
    main()
