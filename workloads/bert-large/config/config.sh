# The configuration of the workload; it is read, never executed.
# The Python of the training; the first python on the PATH where this one is missing. It needs PyTorch and NumPy.
export PYTHON_COMMAND=python3

# ModelArts mode: V2 for the newer generation; True lets every server train alone.
#export MODELARTS_VERSION=V2
#export SINGLESERVER_MODE=True

# Offline mode
export TRAIN_DATA_PATH=/data/bert/train
export EVAL_DATA_PATH=/data/bert/val
export PRETRAIN_MODEL_PATH=/data/bert/ms_bert_large.ckpt
export EPOCH_SIZE=5
export TRAIN_STEPS=12000
export RANK_SIZE=1
export DEVICE_NUM=1
