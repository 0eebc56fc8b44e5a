import pytest

from reports.figures.formatting import interval, listed, number, scale_for, size
from results.statistics import Figure
from results.words import counted


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.254, "1.25"), (12.5, "12.5"), (999.6, "1,000"), (1249, "1,250"), (12_511, "12,500"), (0.5, "0.500"),
     (0.0123, "0.012"), (9.999, "10.0"), (0.0999, "0.10"), (1, "1.00"), (117_000, "117,000")],
)  # fmt: skip
def test_numbers_are_formatted(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("unit", "values", "shown"),
    [("s/call", [1.2e-6], "1.20 µs/call"),
     ("s/call", [0.3e-6], "300 ns/call"), ("s/call", [0.3e-6, 1], "0.300 µs/call"),
     ("s", [2.5], "2.50 s"), ("steps/s", [1234.0], "1,230 steps/s"), ("bytes", [1e9], "1,000,000,000 bytes")],
)  # fmt: skip
def test_scales_are_chosen_by_magnitude(unit, values, shown):
    scale = scale_for(unit, values)
    assert f"{scale.number(values[0])} {scale.unit}" == shown


def test_intervals_are_formatted():
    assert interval(Figure(2, 1, 3, 5)) == "(1.00 to 3.00)"
    assert interval(Figure(2, 1, 3, 2)) == "(range 1.0 to 3.0)"
    assert interval(Figure(2, 2, 2, 1)) == "(one launch)"


def test_sizes_counts_and_lists_are_formatted():
    assert [size(10), size(2048), size(16 * 2**30)] == ["10 B", "2.00 KiB", "16.0 GiB"]
    assert [counted(1, "core"), counted(2, "core"), counted(3, "launch")] == ["1 core", "2 cores", "3 launches"]
    assert [listed([]), listed(["a"]), listed(["a", "b", "c"])] == ["", "a", "a, b and c"]
    assert listed(["a", "b", "c", "d"], most=2) == "a, b and 2 more"
