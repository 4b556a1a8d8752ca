"""Plans which table goes where: sizes, costs, strategies, the plan, its text and its picture.

Needs neither TensorFlow nor Horovod.
"""
