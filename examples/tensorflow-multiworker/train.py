"""One weight under MultiWorkerMirroredStrategy: each worker pulls it towards a target of its own, and the average decides."""

import sys

import tensorflow as tf

STEPS = 10
RATE = 0.25  # halves the way to the target in each step
BATCH = 8  # of one worker


def target(worker: int) -> float:
    return float((worker + 1) ** 2)


def reached(goal: float) -> float:
    """The weight after all steps from 0 towards one goal."""
    return goal * (1 - 0.5**STEPS)


def train(strategy: tf.distribute.Strategy) -> float:
    with strategy.scope():
        weight = tf.Variable(0.0)
        optimizer = tf.keras.optimizers.SGD(RATE)
        optimizer.build([weight])

    def own_share(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.fill([BATCH], target(context.input_pipeline_id))).repeat(STEPS)

    def step(targets: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            whole = BATCH * strategy.num_replicas_in_sync
            loss = tf.nn.compute_average_loss((weight - targets) ** 2, global_batch_size=whole)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])  # sums the workers' shares of the gradient

    @tf.function
    def all_workers(targets: tf.Tensor) -> None:
        strategy.run(step, args=(targets,))

    for targets in strategy.distribute_datasets_from_function(own_share):
        all_workers(targets)
    return float(weight.numpy())


def main() -> int:
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()  # reads TF_CONFIG
    strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster)
    worker, size = cluster.task_id, strategy.num_replicas_in_sync
    weight = train(strategy)
    expected, alone = reached(sum(map(target, range(size))) / size), reached(target(worker))
    print(f"worker {worker} of {size}: weight {weight:.4f}, expected {expected:.4f}, alone {alone:.4f}")
    return 0 if abs(weight - expected) < 1e-3 < abs(weight - alone) else 1


if __name__ == "__main__":
    sys.exit(main())
