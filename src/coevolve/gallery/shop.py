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
