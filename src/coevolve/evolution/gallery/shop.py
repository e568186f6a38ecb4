"""A small repository of our own, so that scenarios on software engineering need no download.

Its tests see nearly everything that its code does.
"""

import subprocess
from pathlib import Path

CODE = {
    "shop/__init__.py": "",
    "shop/prices.py": """\
def total(prices, discount=0):
    amount = 0
    for price in prices:
        if price < 0:
            raise ValueError("negative")
        amount += price
    if discount > 10:
        amount = amount - 1
    return amount


def cheapest(prices, default=None):
    if prices is None:
        return default
    return min(prices)


def rounded(amount, step=5):
    return amount // step * step


def split_bill(amount, people):
    share = amount // people
    rest = amount % people
    return [share + 1] * rest + [share] * (people - rest)


def within(low, value, high):
    return low <= value and value < high
""",
    "shop/names.py": """\
def title(first, last, formal=False):
    if formal:
        return last + ", " + first
    return first + " " + last


def initials(name):
    parts = name.split(" ")
    return "".join(part[0] for part in parts if len(part) > 0)


def join(names, mark=","):
    found = []
    for name in names:
        if name == "":
            continue
        found.append(name)
    return mark.join(found)


def middle(name):
    return name[1 : len(name) - 1]


def same(one, two):
    return one.lower() == two.lower()
""",
    "shop/stock.py": """\
class Stock:
    def __init__(self):
        self.items = {}

    def add(self, name, count=1):
        self.items[name] = self.items.get(name, 0) + count
        return self.items[name]

    def take(self, name, count=1):
        left = self.items.get(name, 0)
        if left < count:
            return False
        self.items[name] = left - count
        return True

    def missing(self, wanted):
        return [name for name in wanted if name not in self.items]

    def clear(self):
        self.items.clear()

    def most(self):
        if not self.items:
            return None
        return max(self.items, key=self.items.get)
""",
}
TESTS = {
    "tests/test_prices.py": """\
import pytest

from shop.prices import cheapest, rounded, split_bill, total, within


@pytest.mark.parametrize(("prices", "wanted"), [([1, 2], 3), ([0], 0), ([], 0)])
def test_total(prices, wanted):
    assert total(prices) == wanted


def test_discount():
    assert total([10], 11) == 9
    assert total([10], 10) == 10


def test_negative():
    with pytest.raises(ValueError, match="negative"):
        total([-1])


def test_cheapest():
    assert cheapest([3, 1]) == 1
    assert cheapest(None, 4) == 4


def test_rounded():
    assert rounded(13) == 10


def test_split():
    assert split_bill(7, 3) == [3, 2, 2]


def test_within():
    assert within(1, 1, 2)
    assert not within(1, 2, 2)
    assert not within(1, 0, 2)
""",
    "tests/test_names.py": """\
from shop.names import initials, join, middle, same, title


class TestNames:
    def test_title(self):
        assert title("Ada", "Byron") == "Ada Byron"

    def test_formal(self):
        assert title("Ada", "Byron", True) == "Byron, Ada"

    def test_initials(self):
        assert initials("ada  byron") == "ab"


def test_join():
    assert join(["a", "", "b"]) == "a,b"


def test_middle():
    assert middle("abc") == "b"


def test_same():
    assert same("A", "a")
    assert not same("a", "b")
""",
    "tests/test_stock.py": """\
from shop.stock import Stock


class TestStock:
    def test_only(self):
        stock = Stock()
        assert stock.add("tea") == 1
        assert stock.add("tea", 2) == 3


def test_take():
    stock = Stock()
    assert not stock.take("tea")
    stock.add("tea", 2)
    assert stock.take("tea", 2)
    assert stock.items["tea"] == 0


def test_missing():
    stock = Stock()
    stock.add("tea")
    assert stock.missing(["tea", "milk"]) == ["milk"]


def test_clear():
    stock = Stock()
    stock.add("tea")
    stock.clear()
    assert stock.items == {}


def test_most():
    stock = Stock()
    assert stock.most() is None
    stock.add("tea")
    stock.add("milk", 2)
    assert stock.most() == "milk"
""",
}


MORE = {
    "shop/numbers.py": """\
def area(width, height):
    return width * height


def border(width, height):
    return 2 * (width + height)


def grows(before, after):
    return after > before


def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value


def middle_of(low, high):
    return (low + high) // 2


def count_down(start):
    found = []
    while start > 0:
        found.append(start)
        start = start - 1
    return found


def evens(numbers):
    return [number for number in numbers if number % 2 == 0]


def largest(numbers):
    best = numbers[0]
    for number in numbers[1:]:
        if number > best:
            best = number
    return best


def add_tax(price, percent):
    return price + price * percent // 100


def change_due(paid, price):
    if paid < price:
        return 0
    return paid - price


def per_box(count, size):
    return (count + size - 1) // size


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def steps_to(here, there):
    return abs(there - here) + 1


def running(numbers):
    total = 0
    found = []
    for number in numbers:
        total = total + number
        found.append(total)
    return found


def first_above(numbers, limit):
    for place, number in enumerate(numbers):
        if number > limit:
            return place
    return -1


def shift(numbers, by):
    by = by % len(numbers)
    return numbers[by:] + numbers[:by]


def weeks(days):
    return days // 7, days % 7


def minutes(hours, rest):
    return hours * 60 + rest


def mean_of(numbers):
    if len(numbers) == 0:
        return 0
    return sum(numbers) // len(numbers)


def pairs(numbers):
    return [(a, b) for a, b in zip(numbers, numbers[1:]) if a < b]
""",
    "tests/test_numbers.py": """\
from shop import numbers


def test_area():
    assert numbers.area(2, 3) == 6


def test_border():
    assert numbers.border(2, 3) == 10


def test_grows():
    assert numbers.grows(1, 2) is True
    assert numbers.grows(2, 2) is False


def test_clamp():
    assert numbers.clamp(0, 1, 5) == 1
    assert numbers.clamp(9, 1, 5) == 5
    assert numbers.clamp(3, 1, 5) == 3


def test_middle_of():
    assert numbers.middle_of(2, 8) == 5


def test_count_down():
    assert numbers.count_down(3) == [3, 2, 1]


def test_evens():
    assert numbers.evens([1, 2, 4]) == [2, 4]


def test_largest():
    assert numbers.largest([1, 7, 3]) == 7


def test_add_tax():
    assert numbers.add_tax(200, 10) == 220


def test_change_due():
    assert numbers.change_due(10, 7) == 3
    assert numbers.change_due(5, 7) == 0
    assert numbers.change_due(7, 6) == 1


def test_per_box():
    assert numbers.per_box(7, 3) == 3
    assert numbers.per_box(6, 3) == 2


def test_is_leap():
    assert numbers.is_leap(2000) is True
    assert numbers.is_leap(1900) is False
    assert numbers.is_leap(2023) is False
    assert numbers.is_leap(2024) is True


def test_steps_to():
    assert numbers.steps_to(2, 5) == 4


def test_running():
    assert numbers.running([1, 2, 3]) == [1, 3, 6]


def test_first_above():
    assert numbers.first_above([1, 5, 9], 4) == 1
    assert numbers.first_above([1, 4], 4) == -1


def test_shift():
    assert numbers.shift([1, 2, 3], 4) == [2, 3, 1]


def test_weeks():
    assert numbers.weeks(17) == (2, 3)


def test_minutes():
    assert numbers.minutes(2, 5) == 125


def test_mean_of():
    assert numbers.mean_of([2, 4]) == 3
    assert numbers.mean_of([]) == 0


def test_pairs():
    assert numbers.pairs([1, 3, 2, 2]) == [(1, 3)]
""",
}
"""Functions enough for every split."""


def committed(folder: Path, files: dict[str, str]) -> Path:
    """A git repository with one commit of some files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=dev", "-c", "user.email=dev@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    return folder


def shop(folder: Path) -> Path:
    """A small repository whose tests see nearly everything."""
    return committed(folder, {**CODE, **TESTS})
