"""How fast does one dynamic table train, 26 of 5,000,000 scrambled 63-bit keys a sample?

    python -m benchmarks.dynamic_table

It is W3 of `benchmarks.tables`.
"""

from benchmarks import tables

TITLE = tables.TITLES["W3"]


def main(arguments=None):
    return tables.main(arguments, "W3")


if __name__ == "__main__":
    main()
