"""What launchers say in the environment of the processes that they start together."""

import os

# One of these says that a launcher started this process as one of several ranks.
LAUNCHERS = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
# What launchers say from which Horovod does not learn of the others. That of Slurm is the one of
# `srun`: SLURM_NTASKS is also there in a batch script, which runs once.
OTHER_LAUNCHERS = (
    "SLURM_STEP_NUM_TASKS",
    "MV2_COMM_WORLD_SIZE",
    "MPI_LOCALNRANKS",
    "FLUX_JOB_SIZE",
    "JSM_NAMESPACE_SIZE",
)


def sizes(names):
    """Returns those of these environment variables that tell of more than one process, a dict."""
    return {name: os.environ[name] for name in names if os.environ.get(name, "1") != "1"}
