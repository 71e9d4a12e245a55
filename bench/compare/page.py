"""A document as one HTML page without other files: means, plots, tables with losses in red, how it was measured."""

import html
import pathlib

import plots
from results import FIGURES, figures_of, geometric_means, loses, losses, ratio, troubles
from table import (
    COLD_COLUMNS,
    LOSS_COLUMNS,
    MEAN_COLUMNS,
    TEXT_COLUMNS,
    cold_rows,
    counted,
    difference_cells,
    engine_cell,
    loss_cells,
    loss_title,
    mean_cells,
    number,
)


def escape(text):
    return html.escape(str(text))


def _cell(cell, column, title=""):
    text, red = cell if isinstance(cell, tuple) else (cell, False)
    classes = " ".join(["text"] * (column in TEXT_COLUMNS) + ["loss"] * red)
    attributes = (f' class="{classes}"' if classes else "") + (f' title="{escape(title)}"' if title else "")
    return f"<td{attributes}>{escape(text)}</td>"


def _table(columns, rows):
    """rows: finished <tr> elements."""
    head = "".join(f"<th{' class=text' if c in TEXT_COLUMNS else ''}>{escape(c)}</th>" for c in columns)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{"".join(rows)}</tbody></table></div>\n'


def _row(cells, columns):
    return f"<tr>{''.join(map(_cell, cells, columns))}</tr>\n"


def times_table(document):
    subject, peers = document["subject"], document["peers"]
    engines = [subject, *peers]
    columns = ["model", "precision", "threads", *(f"{e} ms" for e in engines), *(f"vs {p}" for p in peers)]
    columns += ["max diff", "/ max"]
    lines, told = [], set()
    for row in document["rows"]:
        cells = [_cell(*pair) for pair in zip([row["model"], row["precision"], row["threads"]], columns)]
        for engine in engines:
            result = row["engines"][engine]
            cells.append(
                _cell(engine_cell(row, engine, subject), "", result.get("unavailable") or result.get("error") or "")
            )
        for peer in peers:
            spread = row["ratios"].get(peer)
            title = f"half of the alternations from {spread['low']:.2f} to {spread['high']:.2f}" if spread else ""
            cells.append(_cell((number(ratio(row, subject, peer)), loses(document, row, peer)), "", title))
        cells += [_cell(cell, "") for cell in difference_cells(row, subject)]
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
        for trouble in troubles(row):
            if (row["path"], trouble) not in told:
                told.add((row["path"], trouble))
                lines.append(f'<tr class="more"><td colspan="{len(columns)}">{escape(trouble)}</td></tr>\n')
    return _table(columns, lines)


def cards(document):
    parts = []
    for mean in geometric_means(document):
        if mean["figure"] != "time":
            continue
        red = ' class="loss"' if mean["loss"] else ""
        where = f"{mean['precision']}, {counted(mean['threads'], 'thread')}"
        lost = counted(mean["losses"], "loss") if mean["losses"] else "no loss"
        parts.append(
            f'<div class="card"><span class="soft">vs {escape(mean["peer"])}</span><b{red}>{mean["mean"]:.2f}</b>'
            f'{escape(where)}<br><span class="soft">{counted(mean["models"], "model")}, {lost}</span></div>\n'
        )
    return f'<div class="cards">{"".join(parts)}</div>\n' if parts else ""


def _figure(caption, svg):
    return f"<figure><figcaption>{escape(caption)}</figcaption>{svg}</figure>\n" if svg else ""


def ratio_plots(document):
    drawn = [
        _figure(
            f"{document['subject']} vs {peer}, {precision}, {counted(threads, 'thread')}",
            plots.ratios_svg(document, peer, precision, threads),
        )
        for precision, threads in plots.groups(document)
        for peer in document["peers"]
    ]
    return f'<div class="plots">{"".join(drawn)}</div>\n'


def cold_plots(document):
    drawn = [
        _figure(
            f"{FIGURES[figure]}, {'MB above imports' if figure == 'memory' else 'ms'}: "
            f"{precision}, {counted(threads, 'thread')}",
            plots.figures_svg(document, figure, precision, threads),
        )
        for figure in figures_of(document)
        for precision, threads in plots.groups(document)
        if figure != "time"
    ]
    return f'<div class="plots">{"".join(drawn)}</div>\n'


def cold_table(document):
    columns = ["model", "precision", "threads", "engine", *COLD_COLUMNS.values()]
    rows = [
        _row([model, precision, threads, engine, *(cells[c] for c in COLD_COLUMNS)], columns)
        for model, precision, threads, engine, cells in cold_rows(document)
    ]
    return _table(columns, rows)


def how(document):
    settings, machine = document["settings"], document["machine"]
    facts = {
        "command": document["command"],
        "engines": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "blocks": f"{settings['alternations']} alternations in random order, each engine {settings['block']:g} s after "
        f"a pause of {settings['pause']:g} s and two runs",
        "CPU": f"{machine['cpu']}, {machine['usable_cores']} usable cores, {machine['memory_bytes'] / 2**30:.0f} GiB",
        "instructions": " ".join(machine["flags"]) or "unknown",
        "system": f"{machine['system']}, Python {machine['python']}",
        "load at the start": f"{machine['load_average']:.1f}",
        "commit of the tree": machine["commit"] or "unknown",
    }
    lines = "".join(f"<dt>{escape(key)}</dt><dd>{escape(fact)}</dd>" for key, fact in facts.items())
    return f"<dl>{lines}</dl>\n"


def page(document):
    """The text of the page."""
    style = (pathlib.Path(__file__).parent / "page.css").read_text()
    subject, machine = document["subject"], document["machine"]
    title = f"{subject} beside {', '.join(document['peers']) or 'nothing'}"
    drawing = plots.available()
    means, lost = geometric_means(document), losses(document)
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<style>\n{style}</style></head><body>\n<h1>{escape(title)}</h1>\n",
        f'<p class="soft">{escape(machine["cpu"])}, {machine["usable_cores"]} usable cores. ',
        f"Ratios are a peer's figure over that of {escape(subject)}: above 1, {escape(subject)} is better.</p>\n",
        *(f'<p class="soft">{escape(note)}</p>\n' for note in document["notes"]),
        cards(document),
    ]
    if drawing and document["peers"]:
        parts += ["<h2>Ratios of time</h2>\n", ratio_plots(document)]
    parts += ["<h2>Times</h2>\n", times_table(document)]
    if means:
        parts += [
            "<h2>Geometric means</h2>\n",
            _table(MEAN_COLUMNS, [_row(mean_cells(m), MEAN_COLUMNS) for m in means]),
        ]
    if any(row["ratios"] for row in document["rows"]):
        parts.append(f"<h2>{escape(loss_title(document).capitalize())}: {len(lost) or 'none'}</h2>\n")
        parts.append(_table(LOSS_COLUMNS, [_row(loss_cells(f), LOSS_COLUMNS) for f in lost]) if lost else "")
    if cold_rows(document):
        parts.append("<h2>Cold starts</h2>\n")
        parts.append(f'<p class="soft">Medians of {document["settings"]["cold"]} processes per engine.</p>\n')
        parts += [cold_plots(document) if drawing else "", cold_table(document)]
    parts += ["<h2>How it was measured</h2>\n", how(document)]
    parts.append("" if drawing else '<p class="soft">Plots are drawn where matplotlib is installed.</p>\n')
    return "".join(parts) + "</body></html>\n"
