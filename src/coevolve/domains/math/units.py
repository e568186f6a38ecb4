"""Units of measure: their names, and how many of one make another."""

import re
from typing import NamedTuple


class Unit(NamedTuple):
    name: str
    plural: str
    symbol: str
    kind: str
    size: int
    """In the smallest unit of its kind here."""


UNITS = {
    unit.name: unit
    for unit in (
        Unit("millilitre", "millilitres", "ml", "volume", 1),
        Unit("litre", "litres", "l", "volume", 1_000),
        Unit("gram", "grams", "g", "mass", 1),
        Unit("kilogram", "kilograms", "kg", "mass", 1_000),
        Unit("centimetre", "centimetres", "cm", "length", 1),
        Unit("metre", "metres", "m", "length", 100),
        Unit("kilometre", "kilometres", "km", "length", 100_000),
        Unit("second", "seconds", "s", "time", 1),
        Unit("minute", "minutes", "min", "time", 60),
        Unit("hour", "hours", "h", "time", 3_600),
    )
}
SPELLINGS = {
    spelling: unit
    for unit in UNITS.values()
    for name in (unit.name, unit.plural)
    for spelling in (name, name.replace("litre", "liter").replace("metre", "meter"), unit.symbol)
} | {"hr": UNITS["hour"], "hrs": UNITS["hour"], "sec": UNITS["second"], "mins": UNITS["minute"]}

STUFF = {
    "volume": ("milk", "juice", "water", "paint", "soup", "oil"),
    "mass": ("flour", "rice", "sand", "sugar", "wool", "clay"),
    "length": ("rope", "ribbon", "wire", "cable", "fabric", "hose"),
    "time": ("recordings", "music", "film", "lectures"),
}
PAIRS = (
    ("millilitre", "litre"),
    ("gram", "kilogram"),
    ("centimetre", "metre"),
    ("metre", "kilometre"),
    ("second", "minute"),
    ("minute", "hour"),
)
"""A smaller unit and a larger one that it is converted to or from."""


KNOWN = """
mm millimetre millimetres millimeter millimeters inch inches in foot feet ft yard yards yd mile
miles mi mg milligram milligrams ounce ounces oz pound pounds lb lbs ton tons tonne tonnes
gallon gallons gal quart quarts pint pints cup cups cl dl
day days week weeks month months year years decade decades century centuries ms am pm
dollar dollars cent cents usd euro euros eur pence pounds yen rupee rupees
degree degrees deg ° °c °f c f n radian radians rad kelvin celsius fahrenheit
mph kph kmh newton newtons joule joules watt watts volt volts amp amps ohm ohms hertz hz
pascal pascals unit units
"""
JOINED = frozenset(["per", "of", "a", "an", "the", "in", "each", "square", "cubic", "sq", "cu"])
"""They say nothing by themselves."""
ALLOWED = frozenset(KNOWN.split()) | SPELLINGS.keys() | JOINED
WORD = re.compile("[a-zµ°]+")


def unknown_words(words: str, *texts: str) -> str:
    """The first of some words after a number that is no unit and stands in none of the texts; all
    of them where none says what was counted. Empty where nothing is wrong."""
    said = WORD.findall(words.lower())
    strange = [word for word in said if word not in ALLOWED]
    known = {word for text in texts for word in WORD.findall(text.lower())} if strange else ()
    odd = next((word for word in strange if word not in known), "")
    return odd or (words if said and JOINED.issuperset(said) and said != ["in"] else "")


def unit_called(words: str) -> Unit | None:
    """The unit that some words name, None if they name none that is known."""
    return SPELLINGS.get(words.lower().strip(" ."))


def factor(small: str, large: str) -> int:
    """How many of the smaller unit make one of the larger."""
    return UNITS[large].size // UNITS[small].size
