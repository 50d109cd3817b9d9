"""The states of training jobs as integers, by their names."""

_NAMES = (
    "UNKNOWN INIT IMAGE_CREATING IMAGE_FAILED SUBMIT_TRYING SUBMIT_FAILED DELETE_FAILED WAITING RUNNING KILLING COMPLETED"
    " FAILED KILLED CANCELED LOST SCALING SUBMIT_MODEL_FAILED DEPLOY_SERVICE_FAILED CHECK_INIT CHECK_RUNNING"
    " CHECK_RUNNING_COMPLETED CHECK_FAILED"
)
JOB_STATE = {number: "JOBSTAT_" + name for number, name in enumerate(_NAMES.split())}

COMPLETED, WAITS = 10, (0, 1, 2, 4, 7, 8, 15, 18, 19, 20)
PHASES = ("Completed", "Failed", "Abnormal", "Terminated")  # in which jobs of the second version end
