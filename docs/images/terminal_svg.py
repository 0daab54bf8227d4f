#!/usr/bin/env python3
"""Draws terminal output as an SVG picture.

    target/release/afterwrite demo | docs/images/terminal_svg.py "afterwrite demo" --lines 1-12,53-65,-4 > docs/images/demo.svg

Reads the output from standard input; the argument is the command that is shown above it. --lines selects lines of long output,
for example `--lines 1-9,53-64,-4` (the first nine, some from the middle, the last four); gaps are drawn as an ellipsis. Nothing
else is drawn that the command did not print.
"""

import argparse
import html
import sys

WIDTH, LINE, LEFT, TOP = 8.43, 19, 20, 62
BACKGROUND, BAR, TEXT, DIM, GOOD, BAD, BLUE = (
    "#16181d", "#24272e", "#d7dae0", "#7d8590", "#7ee787", "#ff7b72", "#79c0ff")
BLOCKS = set("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉")
FRAME = set("─│┌┐└┘├┤┬┴┼━┃╞╡╪═╎╌")


def spans(line: str) -> str:
    """The line as runs of one colour each: frames are dim, bars are blue, ticks are green, crosses are red."""
    kind = {**dict.fromkeys(FRAME, DIM), **dict.fromkeys(BLOCKS, BLUE), "✓": GOOD, "✔": GOOD, "✗": BAD, "✘": BAD}
    runs: list[tuple[str, str]] = []
    for character in line:
        wanted = kind.get(character, TEXT)
        if runs and runs[-1][0] == wanted:
            runs[-1] = (wanted, runs[-1][1] + character)
        else:
            runs.append((wanted, character))
    return "".join(f'<tspan fill="{fill}">{html.escape(text)}</tspan>' for fill, text in runs)


def picture(command: str, lines: list[str]) -> str:
    columns = max([len(line) for line in lines] + [len(command) + 2, 60])
    width, height = round(LEFT * 2 + columns * WIDTH), TOP + LINE * (len(lines) + 1) + 14
    rows = [f'<text x="{LEFT}" y="{TOP}"><tspan fill="{GOOD}">$ </tspan><tspan fill="{TEXT}">{html.escape(command)}</tspan></text>']
    rows += [f'<text x="{LEFT}" y="{TOP + LINE * (row + 1)}">{spans(line)}</text>' for row, line in enumerate(lines) if line.strip()]
    dots = "".join(f'<circle cx="{LEFT + 20 * place}" cy="19" r="6" fill="{fill}"/>' for place, fill in enumerate((BAD, "#e3b341", GOOD)))
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>Output of {html.escape(command)}</title>",
        "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>',
        f'<path d="M0 38V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v30z" fill="{BAR}"/>{dots}',
        *rows,
        "</svg>",
        "",
    ])


def select(lines: list[str], selection: str) -> list[str]:
    """The lines of these ranges, with an ellipsis in each gap."""
    chosen: set[int] = set()
    for part in selection.split(","):
        first, _, last = part.partition("-")
        if first:
            chosen.update(range(int(first) - 1, min(int(last or first), len(lines))))
        else:
            chosen.update(range(max(len(lines) - int(last), 0), len(lines)))
    shown: list[str] = []
    previous = -1
    for index in sorted(chosen):
        if index != previous + 1:
            shown.append("…")
        shown.append(lines[index])
        previous = index
    return shown


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", help="the command that printed the output")
    arguments.add_argument("--lines", help="the lines to draw, from 1; default: all")
    chosen = arguments.parse_args()
    lines = [line.rstrip() for line in sys.stdin.read().expandtabs().splitlines()]
    sys.stdout.write(picture(chosen.command, select(lines, chosen.lines) if chosen.lines else lines))


if __name__ == "__main__":
    main()
