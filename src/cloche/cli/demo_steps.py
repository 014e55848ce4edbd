"""The steps of ``cloche demo``. Each says what it promises, runs it for real, and checks that it came true.

A step is a function with the decorator `step`; they run in the order in which they stand here.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.errors import UnsupportedError

if TYPE_CHECKING:
    from cloche.cli.demo import Stage


@dataclass(frozen=True, slots=True)
class Step:
    """One stop of the tour."""

    name: str
    title: str
    promise: str
    act: Callable[[Stage], None]


STEPS: list[Step] = []


def step(title: str, promise: str) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Add a function to the tour."""

    def register(act: Callable[[Stage], None]) -> Callable[[Stage], None]:
        STEPS.append(Step(act.__name__, title, promise, act))
        return act

    return register


@step("A live session", "Variables stay from cell to cell, and a last bare expression has a value.")
def live_state(stage: Stage) -> None:
    first = stage.run("prices = [3, 4, 5]\nprint('hello from a process of my own')")
    stage.check(first.stdout == "hello from a process of my own\n", "its output was captured")
    second = stage.run("sum(prices)")
    stage.check(second.value == "12", "the second cell knew the first one's variable")


@step("An error, with the right line", "The traceback shows your lines and nothing of ours; the session goes on.")
def error_line(stage: Stage) -> None:
    failed = stage.run("def mean(values):\n    return sum(values) / len(values)\n\nmean([])")
    stage.check(failed.outcome == "error", "the outcome is 'error'")
    stage.check(failed.exception is not None and failed.exception.line == 2, "line 2 is named")
    stage.check(stage.run("prices").value == "[3, 4, 5]", "the variables are still there")


@step("The host keeps its secrets", "The guest sees an allow-list of variables; your keys are not on it.")
def secrets_stay(stage: Stage) -> None:
    name = "CLOCHE_DEMO_API_KEY"
    os.environ[name] = "only-the-host-may-know"
    try:
        with stage.sandbox() as fresh:
            seen = stage.run(f"import os\nos.environ.get({name!r}, 'not visible')", fresh)
    finally:
        del os.environ[name]
    stage.check(seen.value == "'not visible'", f"{name} is set here in the host and cannot be read inside")
    stage.say(f"The wall of this session: {seen.isolation}, with the layers {', '.join(seen.layers)}.")


_PLOT = """\
import math, matplotlib.pyplot as plt
x = [i / 20 for i in range(200)]
plt.figure(figsize=(4, 2))
plt.plot(x, [math.exp(-t / 4) * math.cos(3 * t) for t in x], lw=3)
plt.title('under the bell');
"""

_DRAWING = """\
import math, struct, zlib

class Drawing:
    def __init__(self, width, height, curve):
        rows = [bytearray(b'\\0' + b'\\xff' * width) for _ in range(height)]
        for x in range(width):
            middle = int((1 - curve(x / width)) * (height - 1) / 2)
            for y in range(max(0, middle - 3), min(height, middle + 4)):
                rows[y][x + 1] = 40
        self.size, self.rows = (width, height), rows

    def _repr_png_(self):
        def chunk(name, data):
            return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
        head = struct.pack('>IIBBBBB', *self.size, 8, 0, 0, 0, 0)
        body = zlib.compress(b''.join(self.rows))
        return b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', head) + chunk(b'IDAT', body) + chunk(b'IEND', b'')

display(Drawing(360, 120, lambda t: math.exp(-3 * t) * math.cos(20 * t)))
"""


@step("A plot", "A figure that is open at the end of a cell comes back as a picture.")
def plot(stage: Stage) -> None:
    if stage.quietly("import matplotlib.pyplot").success:
        drawn = stage.run(_PLOT)
    else:
        stage.say("matplotlib is not installed for the guest's interpreter, so this one is drawn by hand.")
        drawn = stage.run(_DRAWING, brief=True)
    pictures = [display.data["image/png"] for display in drawn.displays if "image/png" in display]
    stage.check(len(pictures) == 1, "one picture came back")
    stage.show_picture("plot.png", pictures[0])


@step("A time-out that keeps the variables", "A cell that runs too long is stopped; what it had done remains.")
def timeout_keeps(stage: Stage) -> None:
    stopped = stage.run("rounds = 0\nwhile True:\n    rounds += 1", timeout_ms=300)
    stage.check(stopped.outcome == "timeout", "the endless loop was stopped after 300 ms")
    stage.check(stopped.session_state == "kept", "the session was kept")
    stage.check(stage.run("rounds > 0 and prices").value == "[3, 4, 5]", "all variables are there, new and old")


@step(
    "A call to a model",
    "The code asks; the host answers. Here a scripted stand-in plays the model: no key, no network.",
)
def bridge(stage: Stage) -> None:
    stage.give_context("The cloche is a glass bell that gardeners put over a seedling.\n" * 400)
    asked = stage.run(
        "parts = chunk_text(context, 10_000, 0)\n"
        "answers = llm_query_batched(['How many bells?\\n' + part for part in parts])\n"
        "print(len(context), 'characters,', len(parts), 'questions')\n"
        "sum(int(answer) for answer in answers)"
    )
    stage.say(f"The stand-in for a model was asked {len(stage.questions)} times, in the host.")
    stage.check(asked.value == "400", "the answers came back in order and add up")
    stage.check(asked.usage.bridge_calls == len(stage.questions) == 3, "every call is accounted for")


@step("Files", "A file goes in, another comes out, and the result says which the cell made.")
def files(stage: Stage) -> None:
    stage.put_file("harvest.csv", "bed,kilos\nnorth,12\nsouth,30\n")
    made = stage.run(
        "import csv, json\n"
        "rows = list(csv.DictReader(open('harvest.csv')))\n"
        "json.dump({row['bed']: int(row['kilos']) for row in rows}, open('harvest.json', 'w'))"
    )
    stage.check(made.files_created == ("harvest.json",), "the new file is named")
    stage.check(stage.take_file("harvest.json") == b'{"north": 12, "south": 30}', "it was taken out, whole")


@step(
    "One session, five futures",
    "A live session is branched: each branch has the variables and files, and what it does with them is its own.",
)
def branches(stage: Stage) -> None:
    stage.run("beds = {'north': 12, 'south': 30}\nprint(open('plan.txt', 'w').write('undecided'), 'letters')")
    if not stage.can("fork"):
        stage.say("The wall of this tour cannot branch a session; on Linux the jail can (cloche doctor).")
        try:
            refused = stage.branch(5) == []
        except UnsupportedError:
            refused = True
        stage.check(refused, "it was asked to, and refused")
        return
    idea = "beds['south'] *= {0}; open('plan.txt', 'w').write('times {0}'); sum(beds.values())"
    ideas = stage.branch(5)
    try:
        totals = [stage.run(idea.format(factor), branch) for factor, branch in enumerate(ideas, 1)]
    finally:
        for branch in ideas:
            branch.destroy()
    stage.check([total.value for total in totals] == ["42", "72", "102", "132", "162"], "five branches, five harvests")
    kept = stage.run("sum(beds.values()), open('plan.txt').read()")
    stage.check(kept.value == "(42, 'undecided')", "the session itself noticed nothing")
    stage.savepoint()
    stage.run("beds.clear(); open('plan.txt', 'w').write('ruined')")
    stage.undoing()
    kept = stage.run("sum(beds.values()), open('plan.txt').read()")
    stage.check(kept.value == "(42, 'undecided')", "a cell was taken back, with what it did to the files")


@step("State that survives", "Variables are saved, and come back in a session that has never seen them.")
def state_survives(stage: Stage) -> None:
    stage.run("seen = []\ndiary = {'seen': seen}\ndef note(what): seen.append(what); return len(seen)\nnote('saved')")
    data = stage.save()
    with stage.sandbox() as fresh:
        fresh.restore(data)
        come_back = stage.run("note('restored'), diary['seen'] is seen, seen", fresh)
    stage.check(come_back.value == "(2, True, ['saved', 'restored'])", "the function, and what two variables share")


@step("An agent's workbench", "It looks at a long text without reading it, and its answer ends the turn.")
def workbench(stage: Stage) -> None:
    from cloche.repl.environment import REPLEnvironment

    if importlib.util.find_spec("re2") is None:
        stage.say("The search engine of the workbench is not installed: pip install 'cloche[repl]'")
        return
    log = "\n".join(f"{n:06} {'ERROR the north bed froze' if n == 73_251 else 'all is well'}" for n in range(100_000))
    with REPLEnvironment(log, sandbox=stage.sandbox()) as environment:
        looked = stage.turn(environment, "print(context_len(), 'characters')\nprint(grep('error', before=1))")
        stage.check("73252: 073251 ERROR" in looked.output, "the line was found among 100,000")
        last = stage.turn(environment, "try:\n    FINAL('the north bed')\nexcept BaseException:\n    print('too late')")
        stage.check(last.is_final and last.final_answer == "the north bed" and not last.output, "nothing catches FINAL")
        shown = looked.shown.number if looked.shown else 0
        stage.check(0 < shown < 100, f"a model would have been shown {shown} tokens of {len(log)} characters")


@step("A crash", "Code that kills its own process gives a result like any other, and the next cell runs.")
def crash(stage: Stage) -> None:
    died = stage.run("print('going')\nimport os\nos._exit(7)")
    stage.check(died.outcome == "exited" and died.exit_code == 7, "the outcome says how it ended: status 7")
    stage.check(died.session_state == "reset", "the result says that the variables are gone")
    stage.check(stage.run("'prices' in globals()").value == "False", "a fresh session took over")
