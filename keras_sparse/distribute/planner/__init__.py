"""Which table goes where: sizes, costs, strategies, the plan and its text, picture and command.

Needs neither TensorFlow nor Horovod.
"""
