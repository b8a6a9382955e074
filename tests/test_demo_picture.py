"""The moving picture of README.md: it is made of the record, and shows every line of it in time."""

import json
import re
from xml.etree import ElementTree as ET

from dev.demo.stories import STORIES
from dev.hack.demo_picture import CAST, COLUMNS, LAST, LONGEST_PAUSE, PICTURE, ROOT, ROWS, cast_of, lines, svg

SVG = "{http://www.w3.org/2000/svg}"
RECORD = cast_of([(0.5, "  0.5 s  up\n"), (60.5, "  60.5 s  <ready> & waiting\n"), (61.0, f"* {'x' * 500}\n")])


def texts(picture: str) -> list[str]:
    root = ET.fromstring(picture)  # noqa: S314 (made by us)
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_the_picture_is_made_of_the_record():
    assert PICTURE.read_text(encoding="utf-8") == svg(lines(CAST.read_text(encoding="utf-8")))
    assert PICTURE.stat().st_size + CAST.stat().st_size < 100_000
    assert PICTURE.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_record_is_a_whole_run():
    said = "\n".join(line.text for line in lines(CAST.read_text(encoding="utf-8")))
    story = STORIES["training"]
    assert all(words in said for words in ("control plane up", "exit code 1", "Completed. What happened", "torn down"))
    assert "ready 0" not in said, "counters are left out"
    assert said.count("\n* spec.") == 7, f"the mistakes at the end of {story.jobset}"


def test_pauses_and_long_lines_are_cut():
    shown = lines(RECORD)
    assert [line.at for line in shown] == [0.0, 0.5, 0.5 + LONGEST_PAUSE, 1.0 + LONGEST_PAUSE]
    assert [len(line.text) <= COLUMNS for line in shown] == [True] * 4
    assert texts(svg(shown))[:3] == ["$ make demo", "  0.5 s  up", "  60.5 s  <ready> & waiting"]


def test_each_line_appears_in_its_time_and_the_end_is_held():
    picture = svg(lines(RECORD))
    length = 1.0 + LONGEST_PAUSE + LAST
    assert f"animation: {length:.1f}s" in picture
    shares = [float(share) for share in re.findall(r"@keyframes a\d+ .*?([\d.]+)% { opacity: 1 }", picture)]
    assert shares == [round(100 * at / length, 2) for at in (0.5, 0.5 + LONGEST_PAUSE, 1.0 + LONGEST_PAUSE)]


def test_more_lines_than_fit_move_up():
    many = cast_of([(float(number), f"line {number}\n") for number in range(1, ROWS + 3)])
    moves = re.search(r"@keyframes scroll .*", svg(lines(many)))
    assert moves
    assert re.findall(r"translateY\((-?\d+)px\)", moves[0]) == ["0", "-18", "-36", "-54"]


def test_it_moves_by_css_alone():
    picture = PICTURE.read_text(encoding="utf-8")
    assert not re.search(r"<script|<image|<foreignObject|href|url\(|@import", picture)
    assert json.loads(CAST.read_text(encoding="utf-8").splitlines()[0])["title"] == "make demo"
