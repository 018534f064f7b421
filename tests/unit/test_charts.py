"""The charts beside the benchmarks' figures."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from benchmarks.charts import Bars, Panel, bar_charts, line_charts
from benchmarks.decision_time import percentile


def test_a_chart_is_one_whole_picture_of_all_its_lines() -> None:
    lines = {"<fast>": [1.0, 2.0, 3.0], "slow": [10.0, math.nan, 49.0]}

    picture = ElementTree.fromstring(
        line_charts([Panel("models", [10, 100, 1000], lines)] * 2, "µs", aim=50)
    )

    drawn = [each for each in picture.iter() if each.tag.endswith("polyline")]
    assert [len(line.attrib["points"].split()) for line in drawn] == [3, 2, 3, 2]
    texts = {each.text for each in picture.iter() if each.tag.endswith("text")}
    assert {"<fast>", "slow", "models", "1,000", "aim: 50", "µs"} <= texts


def test_a_higher_value_stands_higher() -> None:
    picture = ElementTree.fromstring(line_charts([Panel("x", [1, 10], {"line": [1.0, 5.0]})], "y"))

    (line,) = (each for each in picture.iter() if each.tag.endswith("polyline"))
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in line.attrib["points"].split())
    assert x1 < x2
    assert y1 > y2


def test_a_percentile_is_a_value_that_was_seen() -> None:
    values = [float(number) for number in range(100, 0, -1)]

    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 0.5) == 50.0
    assert percentile([7.0], 0.99) == 7.0


def test_a_bar_is_as_long_as_the_median_and_its_spread_stands_on_it():
    picture = bar_charts([Bars("Seconds", {"ours": [1.0, 2.0, 4.0], "<theirs>": [4.0]}, ".1f")])

    ours, theirs = re.findall(r'width="([\d.]+)" height="16"', picture)
    assert float(ours) * 2 == float(theirs)
    assert ">2.0</text>" in picture
    assert "&lt;theirs&gt;" in picture
