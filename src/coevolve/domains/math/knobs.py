"""The knobs of math: four choices by shares, and three numbers that make tasks harder."""

from coevolve.domains.knobs import Knob, KnobSpace, shares

OPERATIONS = {"add": 0.25, "subtract": 0.25, "multiply": 0.25, "divide": 0.25}
FORMS = {"integer": 0.4, "decimal": 0.2, "fraction": 0.2, "percent": 0.2}
TEXTS = {"word": 0.5, "bare": 0.5}
UNITS = {"no": 0.6, "same": 0.2, "other": 0.2}

SPACE = KnobSpace(
    (
        *shares("operation", OPERATIONS, "whose main operation is to {}"),
        *shares("form", FORMS, "whose answer is asked for in the form {}"),
        *shares("text", TEXTS, "told as a {} problem"),
        *shares("unit", UNITS, "whose answer needs {} unit (other: it must be converted)", "_unit"),
        Knob("digits", 1, 8, 2, "digits", "mean number of digits of the numbers", harder=1),
        Knob(
            "steps", 1, 8, 2, "operations", "mean number of operations", harder=1, shown=True,
        ),
        Knob(
            "distractors", 0, 4, 0.5, "numbers",
            "mean number of numbers in the text that play no part", harder=1, shown=True,
        ),
    )
)  # fmt: skip
