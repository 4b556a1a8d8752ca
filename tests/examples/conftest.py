import pathlib
import sys

import pytest

# The examples are scripts that import their neighbours, or packages in `examples`.
EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES.parent)]

RATINGS = """\
user_id:token\titem_id:token\trating:float\ttimestamp:float
u1\tMisérables, Les (1995)\t5\t978300760
u1\tFreaks (1932)\t2\t978300761
u2\tToy Story (1995)\t3\t978300762
u2\tToy Story (1995)\t4\t978300763
u3\tFreaks (1932)\t1\t978300764
"""
USERS = """\
user_id:token\tage:float\tgender:token\toccupation:float\tzip_code:token
u1\t25\tF\t10\t48067
u2\t56\tM\t16\t70072
u3\t25\tM\t15\t48067
u4\t1\tF\t10\t02460
"""
ITEMS = """\
item_id:token\tmovie_title:token\trelease_year:float\tgenre:token
Toy Story (1995)\tToy Story\t1995\tAnimation Children's Comedy
Misérables, Les (1995)\tMisérables, Les\t1995\tDrama
Heat (1995)\tHeat\t1995\tAction Crime
Freaks (1932)\tFreaks\t1932\tHorror Drama
"""


@pytest.fixture
def tiny_files():
    """MovieLens in five ratings, four users and four films: the bytes of its three files."""
    return tuple(text.encode() for text in (RATINGS, USERS, ITEMS))


@pytest.fixture
def examples_folder():
    return EXAMPLES


@pytest.fixture
def raw_line():
    """Makes a raw line of Criteo's form; what is not given is missing."""

    def make(label="0", numbers=None, categories=None):
        fields = [label, *[""] * 39]
        for i, number in (numbers or {}).items():
            fields[1 + i] = str(number)
        for i, category in (categories or {}).items():
            fields[14 + i] = category
        return "\t".join(fields) + "\n"

    return make


@pytest.fixture(scope="session")
def make_features():
    """Makes clicks and preprocesses them: the clicks, and the folder of their features."""
    from examples.dlrm import __main__ as dlrm
    from examples.dlrm import generate

    def make(folder, samples, hash_buckets, *options):
        planted = generate.generate(folder, samples)
        arguments = ["--train", str(folder / "train.txt"), "--hash_buckets", str(hash_buckets)]
        dlrm.main(["preprocess", *arguments, "--output", str(folder / "features"), *options])
        return planted, folder / "features"

    return make
