"""The ModelArts configuration of BERT-large. It is read, never executed; its keys belong to whoever runs it."""

from easydict import EasyDict as ed

bucket = "/aisbench"

access_config = ed(
    {
        "access_key": "",
        "secret_access_key": "",
        "server": "",
        "region_name": "",
        "project_id": "",
        "iam_endpoint": "",
        "obs_endpoint": "",
        "modelarts_endpoint": "",
    }
)

session_config = ed(
    {
        "hyperparameters": [
            {"label": "config_path", "value": "../../pretrain_config_Ascend_Boost.yaml"},
            {"label": "enable_modelarts", "value": "True"},
            {"label": "distribute", "value": "true"},
            {"label": "epoch_size", "value": "5"},
            {"label": "train_steps", "value": "12000"},
            {"label": "enable_save_ckpt", "value": "true"},
            {"label": "enable_lossscale", "value": "true"},
            {"label": "do_shuffle", "value": "true"},
            {"label": "enable_data_sink", "value": "true"},
            {"label": "data_sink_steps", "value": "100"},
            {"label": "accumulation_steps", "value": "1"},
            {"label": "save_checkpoint_steps", "value": "12000"},
            {"label": "save_checkpoint_num", "value": "1"},
        ],
        "inputs": bucket + "/bert/",
        "code_dir": bucket + "/bert-large/",
        "boot_file": bucket + "/bert-large/train.py",
        "job_name": "aisbench-bert-large",
        "framework_type": "Ascend-Powered-Engine",
        # The manual's image, which has no PyTorch: name one that has it where ModelArts itself is to run this.
        "framework_version": "MindSpore-1.3-cann_5.0.2-python3.7-euleros2.8-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "bert-large",
    }
)

session_config_v2 = ed(
    {
        "parameters": [
            {"name": "config_path", "value": "../../pretrain_config_Ascend_Boost.yaml"},
            {"name": "enable_modelarts", "value": "True"},
            {"name": "distribute", "value": "true"},
            {"name": "epoch_size", "value": "5"},
            {"name": "train_steps", "value": "12000"},
            {"name": "enable_save_ckpt", "value": "true"},
            {"name": "enable_lossscale", "value": "true"},
            {"name": "do_shuffle", "value": "true"},
            {"name": "enable_data_sink", "value": "true"},
            {"name": "data_sink_steps", "value": "100"},
            {"name": "accumulation_steps", "value": "1"},
            {"name": "save_checkpoint_steps", "value": "12000"},
            {"name": "save_checkpoint_num", "value": "1"},
        ],
        "inputs": bucket + "/bert/",
        "code_dir": bucket + "/bert-large/",
        "boot_file": bucket + "/bert-large/train.py",
        "job_name": "aisbench-bert-large",
        "framework_type": "Ascend-Powered-Engine",
        # An image with PyTorch, but too old a one for this code: name a newer one where ModelArts itself is to run this.
        "framework_version": "pytorch_1.11.0-cann_6.3.0-py_3.7-euler_2.8.3-aarch64",
        "pool_id": None,
        "train_instance_type": "modelarts.kat1.8xlarge",
        "train_instance_count": 1,
        "out_base_url": bucket + "/result/",
        "job_description_prefix": "bert-large",
    }
)
