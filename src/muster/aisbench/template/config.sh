# The configuration of the workload; it is read, never executed.
# The Python of the training; the first python on the PATH where this one is missing.
export PYTHON_COMMAND=python3

# ModelArts mode
#export MODELARTS_VERSION=V2
#export SINGLESERVER_MODE=True

# Offline mode
#export TRAIN_DATA_PATH=/data/train
#export EVAL_DATA_PATH=/data/val
#export EPOCH_SIZE=90
export RANK_SIZE=1
export DEVICE_NUM=1
#export RANK_TABLE_FILE=/path/to/rank_table.json
# With it the training runs on these servers, over ssh.
#export NODEINFO_FILE=/path/to/nodeinfo.json
