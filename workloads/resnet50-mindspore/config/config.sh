# The configuration of the workload; it is read, never executed.
# The Python of the training; the first python on the PATH where this one is missing. It needs MindSpore, NumPy and Pillow.
export PYTHON_COMMAND=python3

# ModelArts mode: V2 for the newer generation.
#export MODELARTS_VERSION=V2

# Offline mode
export TRAIN_DATA_PATH=/data/imagenet/train
export EVAL_DATA_PATH=/data/imagenet/val
export EPOCH_SIZE=90
export RANK_SIZE=1
export DEVICE_NUM=1
