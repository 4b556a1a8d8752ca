"""MLPerf's DLRM on Criteo's click logs, or on made-up ones of their form.

python -m examples.dlrm generate --output RAW                      # made-up logs, for a first try
python -m examples.dlrm preprocess --train RAW/train.txt --hash_buckets 100000 --output FEATURES
python -m examples.dlrm train --data FEATURES                      # or under horovodrun

Each command has a --help of its own.
"""

import argparse
import importlib

COMMANDS = ("generate", "preprocess", "train")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m examples.dlrm",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("options", nargs=argparse.REMAINDER, help="of the command")
    given = parser.parse_args(arguments)
    # Only what is asked for is imported: the processes of `preprocess` need no TensorFlow.
    module = importlib.import_module(f"examples.dlrm.{given.command}")
    parser = argparse.ArgumentParser(prog=f"{parser.prog} {given.command}")
    module.add_options(parser)
    return module.main(parser.parse_args(given.options))


if __name__ == "__main__":
    main()
