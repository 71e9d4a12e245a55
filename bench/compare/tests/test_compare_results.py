"""Ratios, geometric means, losses; the tables, the page and what is plotted, of documents written by hand."""

import copy
import html.parser
import json

import pytest
from fakes import document, row

import page
import plots
import table
from results import (
    disagreements,
    geometric_mean,
    geometric_means,
    is_loss,
    loses,
    losses,
    ratio,
    troubles,
    value,
)

MB = 1_000_000
COLD = {"own": (20.0, 4.0, 30 * MB, 50 * MB), "peer": (10.0, 8.0, 40 * MB, 80 * MB)}


# ---- statistics


def test_ratio_is_the_median_over_alternations():
    made = row("net", own=[1.0, 2.0, 10.0], peer=[3.0, 1.0, 11.0])
    assert made["engines"]["own"]["median_ms"] == 2.0
    assert made["engines"]["peer"]["median_ms"] == 3.0
    assert made["ratios"]["peer"] == pytest.approx({"median": 1.1, "low": 0.8, "high": 2.05})
    assert row("net", own=[2.0], peer=[3.0])["ratios"]["peer"] == {"median": 1.5, "low": 1.5, "high": 1.5}


def test_no_ratio_without_both():
    assert row("net", own="no", peer=[1.0])["ratios"] == {}
    assert row("net", own=[1.0], peer="no")["ratios"] == {}
    assert ratio(row("net", own=[1.0], peer="no"), "own", "peer") is None


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean(iter([1.0, 4.0, 16.0])) == pytest.approx(4.0)
    assert geometric_mean([]) is None


def test_limits_of_losses():
    assert [is_loss(r) for r in (0.969, 0.97, 1.0, 5.0, None)] == [True, False, False, False, False]
    own = [is_loss(r, 0.03) for r in (0.969, 0.97, 1.0, 1.03, 1.031)]
    assert own == [True, False, False, False, True]


def test_cold_figures():
    made = row("net", own=[1.0], cold=COLD, peer=[1.0])
    assert value(made, "own", "memory") == 20 * MB
    assert [ratio(made, "own", "peer", f) for f in ("time", "create", "first", "memory")] == [1.0, 0.5, 2.0, 2.0]
    assert ratio(made, "own", "other", "create") is None
    made["cold"]["peer"] = {"error": "x"}
    assert ratio(made, "own", "peer", "create") is None
    nothing = row("net", own=[1.0], cold=COLD | {"own": (1.0, 1.0, 5, 5)}, peer=[1.0])
    assert ratio(nothing, "own", "peer", "memory") is None


def sample():
    """Two models of which one loses, one that the peer cannot run, and one on two threads."""
    return document(
        [
            row("fast", own=[1.0], cold=COLD, peer=[4.0]),
            row("slow", own=[4.0], peer=[1.0]),
            row("lone", own=[1.0], peer="it <fails> & stops"),
            row("fast", own=[1.0], peer=[0.95], threads=2),
        ],
        cold=2,
    )


def test_geometric_means_by_group():
    means = geometric_means(sample())
    groups = [(m["figure"], m["threads"], m["models"], m["of"], m["losses"]) for m in means]
    assert groups == [
        ("time", 1, 2, 3, 1),
        ("time", 2, 1, 1, 1),
        ("create", 1, 1, 3, 1),
        ("first", 1, 1, 3, 0),
        ("memory", 1, 1, 3, 0),
    ]
    assert means[0]["mean"] == pytest.approx(1.0)
    assert (means[0]["worst"], means[0]["model"], means[0]["loss"]) == (0.25, "slow", False)
    assert means[1]["loss"]


def test_losses_of_each_figure_lowest_first():
    found = [(x["figure"], x["model"], x["threads"], x["ratio"]) for x in losses(sample())]
    assert found == [("time", "slow", 1, 0.25), ("time", "fast", 2, 0.95), ("create", "fast", 1, 0.5)]


def test_an_engine_beside_itself_loses_on_both_sides_and_in_time_only():
    rows = [row(str(r), own=[1.0], cold=COLD, peer=[r]) for r in (0.9, 1.0, 1.1)]
    made = document(rows, tolerance=0.03)
    assert [loses(made, r, "peer") for r in rows] == [True, False, True]
    assert {x["figure"] for x in losses(made)} == {"time"}
    means = geometric_means(made)
    assert [m["losses"] for m in means] == [2, 0, 0, 0]
    assert means[0]["worst"] == 0.9 and not means[0]["loss"]
    assert geometric_means(document([row("a", own=[1.0], peer=[1.2])], tolerance=0.03))[0]["loss"]


def test_troubles_and_disagreements():
    made = sample()
    assert troubles(made["rows"][2]) == ["peer: it <fails> & stops"]
    differs = {"absolute": None, "relative": None, "reason": "(2,), expected (3,)"}
    for index, difference in enumerate(
        (
            differs,
            {"absolute": 1.0, "relative": 0.1, "reason": None},
            {"absolute": 9.0, "relative": 0.2, "reason": None},
        )
    ):
        made["rows"][index]["engines"]["own"]["difference"] = difference
    made["rows"][3]["engines"]["own"] = {"error": "not known"}
    assert disagreements(made, 0.1) == [
        "fast, fp32, threads 1: (2,), expected (3,)",
        "lone, fp32, threads 1: 2.00e-01",
        "fast, fp32, threads 2: not known",
    ]
    assert troubles(made["rows"][0]) == ["own: (2,), expected (3,)"]
    made["rows"][0]["cold"]["own"] = {"error": "ended by SIGKILL"}
    assert troubles(made["rows"][0])[1] == "own, cold: ended by SIGKILL"
    alone = document([row("net", own=[1.0])], peers=())
    assert disagreements(alone, 0.1) == ["net, fp32, threads 1: there are no other outputs"]


# ---- tables


def lines_of(made, color=False):
    times = table.MainTable(made, [r["model"] for r in made["rows"]], color)
    return [times.header(), *(line for r in made["rows"] for line in times.lines(r))]


def test_table_is_aligned_and_tells_a_reason_once():
    made = sample()
    made["rows"].append(copy.deepcopy(made["rows"][2]) | {"threads": 2})
    lines = lines_of(made)
    assert lines[0].split() == "model precision threads own ms peer ms vs peer max diff / max".split()
    rows = [line for line in lines[1:] if not line.startswith(" ")]
    assert [line.split()[:3] for line in rows] == [[r["model"], "fp32", str(r["threads"])] for r in made["rows"]]
    assert len({len(line) for line in [lines[0], *rows]}) == 1
    assert rows[0].split()[3:6] == ["1.000", "4.000", "4.00"]
    assert rows[2].split()[3:6] == ["1.000", "failed", "-"]
    assert [line for line in lines if line.startswith(" ")] == ["    peer: it <fails> & stops"]


def test_only_losses_are_red():
    made = sample()
    assert table.RED not in "\n".join([*lines_of(made), *table.closing(made)])
    lines = lines_of(made, color=True)
    red = [line.split(table.RED)[1].split(table.RESET)[0].strip() for line in lines if table.RED in line]
    assert red == ["0.25", "0.95"]
    plain = "\n".join(lines).replace(table.RED, "").replace(table.RESET, "")
    assert plain == "\n".join(lines_of(made))


def test_outputs_that_differ_are_red():
    made = sample()
    made["rows"][0]["engines"]["own"]["difference"] = {"absolute": None, "relative": None, "reason": "types"}
    red = lines_of(made, color=True)[1].split(table.RED)[1].split(table.RESET)[0]
    assert red.strip() == "differs"


def test_the_subject_that_fails_alone_is_red():
    alone = lines_of(document([row("net", own="no kernel", peer=[1.0])]), color=True)
    assert alone[1].split(table.RED)[1].split(table.RESET)[0].strip() == "failed"
    assert alone[2] == "    own: no kernel"
    assert table.RED not in "".join(lines_of(document([row("net", own="no", peer="no")]), color=True))


def test_closing_lists_cold_figures_means_and_losses():
    lines = table.closing(sample())
    assert "cold: medians of 2 processes per engine" in lines
    cold = [line.split() for line in lines if line.startswith("fast   fp32") and "MB" not in line][:2]
    assert cold[0] == ["fast", "fp32", "1", "own", "20.00", "4.000", "1.000", "30.0", "50.0", "20.0"]
    assert cold[1] == ["fast", "fp32", "1", "peer", "10.00", "8.000", "1.000", "40.0", "80.0", "40.0"]
    assert "geometric means of ratios, peer / own" in lines
    assert "ratios below 0.97: 3" in lines
    assert lines[-1].split() == ["fast", "fp32", "1", "session", "creation", "peer", "0.50"]
    assert "ratios below 0.97: none" in table.closing(document([row("net", own=[1.0], peer=[1.0])]))
    assert "ratios outside 1.00 +- 0.03: none" in table.closing(
        document([row("a", own=[1.0], peer=[1.0])], tolerance=0.03)
    )


def test_numbers_of_the_table():
    assert [table.milliseconds(x) for x in (0.00521, 1.5, 77.61, 812.333, None)] == [
        "0.0052",
        "1.500",
        "77.61",
        "812.33",
        "-",
    ]
    assert table.counted(1, "thread") == "1 thread" and table.counted(3, "loss") == "3 losses"


# ---- page


class Reader(html.parser.HTMLParser):
    """The cells of every table row, as (text, class), and all tags with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self._open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append(["", dict(attrs).get("class") or ""])
            self._open = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data):
        if self._open:
            self.rows[-1][-1][0] += data


def test_page_has_every_row_and_marks_losses():
    made = sample()
    reader = Reader(page.page(made))
    texts = [[cell for cell, _ in cells] for cells in reader.rows]
    for r in made["rows"]:
        own, peer = (r["engines"][e].get("median_ms") for e in ("own", "peer"))
        times = [table.milliseconds(own), table.milliseconds(peer) if peer else "failed"]
        assert [t[3:5] for t in texts if t[:3] == [r["model"], "fp32", str(r["threads"])] and len(t) == 8] == [times]
    assert ["peer: it <fails> & stops"] in texts
    red = {(cells[0][0], text) for cells in reader.rows for text, kind in cells if "loss" in kind}
    assert {("slow", "0.25"), ("fast", "0.95"), ("fast", "20.00")} <= red
    assert ("fast", "4.00") not in red
    assert sum(t[:4] == ["fast", "fp32", "1", "session creation"] for t in texts) == 1
    assert sum(t[3:4] in (["own"], ["peer"]) for t in texts) == 2


def test_page_stands_alone_and_escapes():
    made = sample()
    made["rows"][0]["model"] = "<script>x</script>"
    made["command"] = "compare.py 'a&b'"
    text = page.page(made)
    reader = Reader(text)
    assert not [tag for tag, _ in reader.tags if tag in ("script", "img", "link", "iframe")]
    assert not [attrs for tag, attrs in reader.tags if {"src", "onclick"} & attrs.keys() and tag != "svg"]
    assert "@import" not in text and "url(http" not in text
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert text.count("<td") == text.count("</td>") and text.count("<div") == text.count("</div>")


def test_page_of_nothing_but_failures_and_of_no_peer():
    failed = Reader(page.page(document([row("net", own="a", peer="b")])))
    assert ["own: a"] in [[cell for cell, _ in cells] for cells in failed.rows]
    alone = page.page(document([row("net", own=[1.5])], peers=()))
    assert "1.500" in alone


def test_page_of_a_document_from_json():
    made = sample()
    assert page.page(json.loads(json.dumps(made))) == page.page(made)


# ---- plots


def test_bars_of_ratios_are_sorted():
    made = sample()
    assert plots.ratio_bars(made, "peer", "fp32", 1) == [("fast", 4.0, False), ("slow", 0.25, True)]
    assert plots.ratio_bars(made, "peer", "fp32", 2) == [("fast", 0.95, True)]
    assert plots.groups(made) == [("fp32", 1), ("fp32", 2)]


def test_bars_of_cold_figures():
    small = {"own": (1.0, 1.0, 1, 2)}
    made = document([row("a", own=[1.0], cold=small), row("b", own=[1.0], cold=COLD), row("c", own=[1.0])])
    assert plots.figure_bars(made, "create", "fp32", 1) == [("b", {"own": 20.0, "peer": 10.0}), ("a", {"own": 1.0})]
    assert plots.figure_bars(made, "memory", "fp32", 1)[0][1] == {"own": 20 * MB, "peer": 40 * MB}


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.1), (0.2, 4), (0.93, 20), (0.01, 900), (0.001, 1.1)])
def test_ticks_hold_one_and_stay_apart(low, high):
    ticks = plots.ticks(low, high)
    assert 1 in ticks and 2 <= len(ticks) <= 10
    assert ticks == sorted(set(ticks)) and low <= ticks[0] and ticks[-1] <= high
    gap = (high / low) ** (1 / 9)
    assert all(b / a >= gap * 0.999 for a, b in zip(ticks, ticks[1:]))
