import pathlib

import check_vector_code as check

BEGIN = "0000 <keras_sparse::Adam::{}(float* const*, long) const>:\n"
SCALARS = "  11:\tvfmadd132ss %xmm1,%xmm2,%xmm3\n  12:\tvsqrtss %xmm1,%xmm1,%xmm1\n"
VECTORS = "  21:\tvfmadd231ps (%rax),%ymm2,%ymm3\n  22:\tvsqrtps %ymm1,%ymm1\n"
ADAM = pathlib.Path("rules/adam.cc.o")


def complaints(listing, path=ADAM):
    return list(check.complaints(path, listing))


def test_scalars_may_do_what_vectors_do():
    assert not complaints(BEGIN.format("UpdateRecords") + VECTORS + SCALARS)


def test_scalars_alone_are_named_in_each_function():
    update, move = BEGIN.format("UpdateRecords"), BEGIN.format("MoveRow<2, LionMoves>")
    (line,) = complaints(update + VECTORS + move + SCALARS)
    assert "MoveRow" in line
    assert line.endswith("['fmadd', 'sqrt']")
    assert len(complaints(update + SCALARS)) == 2
    assert "must update records by vectors" in complaints("")[0]


def test_other_functions_and_narrower_vectors_do_not_count():
    update, other = BEGIN.format("UpdateRecords"), BEGIN.format("Adam")
    narrow = VECTORS.replace("ymm", "xmm")
    assert complaints(update + narrow)
    assert not complaints(update + VECTORS + other + SCALARS)
    assert not complaints(update + VECTORS + BEGIN.format("CatchUp") + SCALARS)


def test_what_is_one_number_a_row_may_be_scalar():
    listing = BEGIN.format("UpdateRecords") + VECTORS + "  31:\tvdivss %xmm1,%xmm1,%xmm1\n"
    assert complaints(listing)
    assert not complaints(listing, pathlib.Path("rules/row_wise_adagrad.cc.o"))


def test_objects_without_rules_are_an_error(capsys):
    assert check.main("objdump", ["core/lookup.cc.o"]) == 1
    assert "ops/core/optimizer/rules" in capsys.readouterr().out
