"""The text that compare.py prints: aligned tables, losses in red on a terminal."""

from results import FIGURES, LOSS, geometric_means, loses, losses, ratio, troubles, value

RED, RESET = "\x1b[31m", "\x1b[0m"
TEXT_COLUMNS = {"model", "precision", "figure", "peer", "engine", "worst"}  # left-aligned


def number(value, places=2):
    return "-" if value is None else f"{value:.{places}f}"


def counted(count, what):
    """Text such as "1 thread", "2 threads", "3 losses"."""
    return f"{count} {what}{'' if count == 1 else 'es' if what.endswith('s') else 's'}"


def milliseconds(value):
    """Four significant digits for short times, and at most four decimal places."""
    if value is None:
        return "-"
    return f"{value:.4f}" if value < 1 else f"{value:.3f}" if value < 10 else f"{value:.2f}"


def megabytes(value):
    return "-" if value is None else f"{value / 1e6:.1f}"


class Table:
    """Lines of cells under titles. A column is as wide as its title or `widths` says. A cell is a text, or (text, True)
    to be painted red."""

    def __init__(self, titles, widths=(), color=False):
        self._titles = titles
        self._widths = [max(len(t), w) for t, w in zip(titles, [*widths, *[0] * len(titles)])]
        self._color = color

    def line(self, cells):
        parts = []
        for title, cell, width in zip(self._titles, cells, self._widths, strict=True):
            text, red = cell if isinstance(cell, tuple) else (cell, False)
            padded = text.ljust(width) if title in TEXT_COLUMNS else text.rjust(width)
            parts.append(f"{RED}{padded}{RESET}" if red and self._color else padded)
        return "  ".join(parts).rstrip()

    def header(self):
        return self.line(self._titles)


def whole(titles, rows, color):
    """The lines of a table whose rows are all known."""
    texts = [[c[0] if isinstance(c, tuple) else c for c in row] for row in rows]
    table = Table(titles, [max(map(len, column)) for column in zip(*texts)], color)
    return [table.header(), *map(table.line, rows)]


def engine_cell(row, engine, subject):
    """Milliseconds of an engine, or why there are none; red for the subject that fails where a peer runs."""
    result = row["engines"][engine]
    if "error" in result:
        return "failed", engine == subject and any("blocks_ms" in other for other in row["engines"].values())
    return "n/a" if "unavailable" in result else milliseconds(result.get("median_ms"))


def difference_cells(row, subject):
    """The subject's difference to the expected outputs, and that relative to the largest of these."""
    difference = row["engines"][subject].get("difference")
    if not difference:
        return ["-", "-"]
    if difference["reason"]:
        return [("differs", True), "-"]
    return [f"{difference['absolute']:.2e}", f"{difference['relative']:.2e}"]


class MainTable:
    """The table of times, printed row by row as they come; `document` needs its names of engines only."""

    def __init__(self, document, models, color=False):
        self._document = document
        self._engines = [document["subject"], *document["peers"]]
        titles = ["model", "precision", "threads", *(f"{e} ms" for e in self._engines)]
        titles += [*(f"vs {p}" for p in document["peers"]), "max diff", "/ max"]
        widths = [max(map(len, models), default=0)] + [9] * (len(titles) - 1)
        self._table = Table(titles, widths, color)
        self._told = set()

    def header(self):
        return self._table.header()

    def lines(self, row):
        """The line of a row, and one per engine that failed, the first time that it says so."""
        document = self._document
        cells = [row["model"], row["precision"], str(row["threads"])]
        cells += [engine_cell(row, e, document["subject"]) for e in self._engines]
        for peer in document["peers"]:
            cells.append((number(ratio(row, document["subject"], peer)), loses(document, row, peer)))
        lines = [self._table.line([*cells, *difference_cells(row, document["subject"])])]
        for trouble in troubles(row):
            if (row["path"], trouble) not in self._told:
                self._told.add((row["path"], trouble))
                lines.append(f"    {trouble}")
        return lines


def cold_rows(document):
    """(model, precision, threads, engine, {figure: (text, red)}) of every engine of every row with cold figures."""
    rows = []
    for row in document["rows"]:
        for engine, cold in row.get("cold", {}).items():
            if "peak_bytes" not in cold:
                continue
            cells = {"steady": (milliseconds(cold["steady_ms"]), False)}
            cells["imports"] = (megabytes(cold["imports_bytes"]), False)
            cells["peak"] = (megabytes(cold["peak_bytes"]), False)
            for figure in ("create", "first", "memory"):
                own = engine == document["subject"]
                red = own and any(loses(document, row, peer, figure) for peer in document["peers"])
                show = megabytes if figure == "memory" else milliseconds
                cells[figure] = (show(value(row, engine, figure)), red)
            rows.append((row["model"], row["precision"], row["threads"], engine, cells))
    return rows


COLD_COLUMNS = {
    "create": "create ms",
    "first": "first run ms",
    "steady": "steady ms",
    "imports": "MB after imports",
    "peak": "peak MB",
    "memory": "peak above imports",
}


def mean_cells(mean):
    return [
        FIGURES[mean["figure"]],
        mean["peer"],
        mean["precision"],
        str(mean["threads"]),
        f"{mean['models']} of {mean['of']}",
        (number(mean["mean"]), mean["loss"]),
        f"{number(mean['worst'])} {mean['model']}",
        (str(mean["losses"]), mean["losses"] > 0),
    ]


MEAN_COLUMNS = ["figure", "peer", "precision", "threads", "models", "mean", "worst", "losses"]
LOSS_COLUMNS = ["model", "precision", "threads", "figure", "peer", "ratio"]


def loss_cells(loss):
    figure = FIGURES[loss["figure"]]
    return [loss["model"], loss["precision"], str(loss["threads"]), figure, loss["peer"], (number(loss["ratio"]), True)]


def loss_title(document):
    limit = f"below {LOSS}" if document["tolerance"] is None else f"outside 1.00 +- {document['tolerance']}"
    return f"ratios {limit}"


def closing(document, color=False):
    """The lines after the main table: cold figures, geometric means, losses."""
    lines = []
    if cold := cold_rows(document):
        lines += ["", f"cold: medians of {document['settings']['cold']} processes per engine"]
        titles = ["model", "precision", "threads", "engine", *COLD_COLUMNS.values()]
        rows = [[m, p, str(t), e, *(cells[c] for c in COLD_COLUMNS)] for m, p, t, e, cells in cold]
        lines += whole(titles, rows, color)
    if means := geometric_means(document):
        lines += ["", f"geometric means of ratios, peer / {document['subject']}"]
        lines += whole(MEAN_COLUMNS, [mean_cells(m) for m in means], color)
    if any(row["ratios"] for row in document["rows"]):
        found = losses(document)
        lines += ["", f"{loss_title(document)}: {len(found) or 'none'}"]
        lines += whole(LOSS_COLUMNS, [loss_cells(f) for f in found], color) if found else []
    return lines
