"""One more module of the shop, with its tests: functions enough for faults in every split."""

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
