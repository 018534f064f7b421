"""Who holds what of which device, and what others use of it (L1, L3, L4): one reading at a time."""

from __future__ import annotations

import pytest

from scheduler.core.ledger import Ledger, helps, left_of
from scheduler.core.sizes import HOST, DeviceId, DeviceReading, FileId, Need

GPU, OTHER = DeviceId("CUDA0"), DeviceId("CUDA1")
FILE, SECOND = FileId("model.gguf"), FileId("other.gguf")


def on_gpu(size: int) -> Need:
    return Need(((GPU, size),))


def mapping(size: int, file: FileId = FILE) -> Need:
    return Need((), ((file, size),))


class Books:
    """A ledger of one GPU of 100 bytes and what is told to it, second by second."""

    def __init__(self) -> None:
        self.ledger = Ledger(5.0)
        self.now = 0.0

    def read(self, free: int, *, moving=(), after: float = 1.0, device=GPU, **told) -> None:
        self.now += after
        told = {"total": 100, **told}
        self.ledger.read((DeviceReading(device, free=free, **told),), set(moving), self.now)

    def exit(self, instance: int) -> None:
        self.ledger.release(instance, self.now)

    def ends(self, after: float) -> bool:
        self.now += after
        return self.ledger.end_returns(self.now)

    @property
    def free(self) -> int:
        return self.ledger.free()[0][GPU]

    @property
    def external(self) -> int:
        return self.ledger.devices[GPU].external


@pytest.fixture
def books() -> Books:
    return Books()


# L1: available ---------------------------------------------------------------------------


def test_available_is_the_total_less_the_external_and_all_that_is_held(books):
    books.ledger.hold(1, on_gpu(30))
    books.read(free=50)

    assert books.external == 20
    assert books.free == 50


def test_a_deficit_is_what_the_need_exceeds_the_available_by(books):
    books.read(free=90)
    books.ledger.hold(1, on_gpu(60))

    assert books.ledger.deficit(on_gpu(30), ()) == ()
    assert books.ledger.deficit(on_gpu(31), ()) == ((GPU, 1),)
    assert books.ledger.deficit(on_gpu(31), {1}) == ()


def test_a_margin_stays_free_and_a_budget_caps_what_is_ours(books):
    books.read(free=90, margin=15)
    assert books.free == 75

    books.read(free=90, margin=15, budget=40)
    assert books.free == 40

    books.read(free=50, margin=15, budget=40)
    assert books.free == 35


def test_what_others_use_is_no_part_of_a_budget(books):
    """A budget caps what is ours; others may use what is left of the device."""
    books.read(free=60, budget=60)

    assert books.free == 60


def test_a_device_that_never_reported_limits_nothing(books):
    assert not books.ledger.limits

    books.read(free=100)

    assert books.ledger.deficit(Need(((OTHER, 10**9),)), ()) == ()


def test_a_device_that_has_gone_limits_nothing_any_more(books):
    books.ledger.hold(1, on_gpu(90))
    books.read(free=10)
    books.ledger.read((), set(), books.now)

    assert books.ledger.deficit(on_gpu(50), ()) == ()


def test_what_is_promised_is_not_to_be_had(books):
    books.read(free=100)

    assert books.ledger.free(promised=[on_gpu(30), on_gpu(20)])[0][GPU] == 50


# L1: mapped files ------------------------------------------------------------------------


def test_a_file_that_several_map_is_held_once_as_much_as_the_one_that_maps_most(books):
    books.ledger.hold(1, mapping(30))
    books.ledger.hold(2, mapping(50))
    books.ledger.hold(3, mapping(20, SECOND))
    books.read(free=100, device=HOST, foreign=0)

    free, files = books.ledger.free()

    assert free[HOST] == 100 - 50 - 20
    assert files == {FILE: 50, SECOND: 20}


def test_who_maps_what_is_mapped_already_needs_only_what_is_more(books):
    books.ledger.hold(1, mapping(60))
    books.read(free=100, device=HOST, foreign=0)

    assert books.ledger.deficit(mapping(100), ()) == ()
    assert books.ledger.deficit(mapping(101), ()) == ((HOST, 1),)
    assert books.ledger.deficit(mapping(60, SECOND), ()) == ((HOST, 20),)


def test_the_exit_of_one_of_two_that_map_a_file_frees_only_what_it_mapped_alone(books):
    books.ledger.hold(1, Need(((HOST, 5),), ((FILE, 30),)))
    books.ledger.hold(2, Need(((HOST, 7),), ((FILE, 50),)))

    assert books.ledger.frees(1) == ((HOST, 5),)
    assert books.ledger.frees(2) == ((HOST, 27),)
    assert books.ledger.frees(1, 2) == ((HOST, 62),)


def test_of_two_that_are_promised_the_same_file_the_second_costs_only_what_is_more(books):
    books.read(free=100, device=HOST, foreign=0)

    assert books.ledger.free(promised=[mapping(30), mapping(40)]) == ({HOST: 60}, {FILE: 40})


# L3: external ----------------------------------------------------------------------------


def test_external_is_what_is_used_beyond_what_is_held(books):
    books.ledger.hold(1, on_gpu(30))

    books.read(free=70)
    assert books.external == 0
    books.read(free=45)
    assert books.external == 25
    books.read(free=60)
    assert books.external == 10


def test_who_takes_less_than_was_granted_makes_no_external_negative(books):
    books.ledger.hold(1, on_gpu(30))
    books.read(free=90)

    assert books.external == 0
    assert books.free == 70


def test_where_the_driver_lists_processes_external_is_the_use_of_those_that_are_not_ours(books):
    books.ledger.hold(1, on_gpu(30))
    books.read(free=40, foreign=12)
    assert books.external == 12

    books.read(free=40, foreign=4, moving=[1])
    assert books.external == 4


@pytest.mark.parametrize("told", [{"foreign": -3}, {"free": 140}])
def test_nonsense_makes_no_external_negative(books, told):
    books.read(**{"free": 100, **told})

    assert books.external == 0


def test_while_something_loads_a_reading_may_only_raise_the_external(books):
    books.read(free=80)
    books.ledger.hold(1, on_gpu(50))

    books.read(free=80, moving=[1])
    assert books.external == 20  # it has taken nothing yet
    books.read(free=30, moving=[1])
    assert books.external == 20
    books.read(free=20, moving=[1])
    assert books.external == 30
    books.read(free=40, moving=[1])
    assert books.external == 30
    books.read(free=40)
    assert books.external == 10


def test_a_load_on_another_device_keeps_no_external_up(books):
    books.read(free=80)
    books.ledger.hold(1, Need(((OTHER, 50),)))

    books.read(free=95, moving=[1])

    assert books.external == 5


def test_a_load_that_maps_a_file_is_one_on_the_host(books):
    books.read(free=80, device=HOST)
    books.ledger.hold(1, mapping(50))

    books.read(free=95, device=HOST, moving=[1])

    assert books.ledger.devices[HOST].external == 20


def test_from_a_stale_reading_nothing_new_is_concluded(books):
    books.read(free=80)
    books.ledger.hold(1, on_gpu(50))
    books.read(free=20, stale=True)
    assert books.external == 20

    books.read(free=100, stale=True)
    assert books.external == 20
    books.read(free=50)
    assert books.external == 0


def test_a_limit_that_comes_with_a_stale_reading_holds(books):
    books.read(free=80)
    books.read(free=80, stale=True, budget=10)

    assert books.free == 10


def test_a_first_reading_counts_though_it_is_stale(books):
    books.read(free=80, stale=True)

    assert books.external == 20


# L4: leaving and returning ---------------------------------------------------------------


def test_what_an_exit_gives_back_is_returning_until_a_reading_shows_it_free(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)
    assert books.free == 40

    books.read(free=40)
    assert (books.free, books.external) == (40, 0)
    books.read(free=70)
    assert (books.free, books.external) == (70, 0)
    books.read(free=100)
    assert (books.free, books.external) == (100, 0)


def test_what_returns_will_be_there_for_who_waits(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)

    assert books.ledger.deficit(on_gpu(100), ()) == ((GPU, 60),)
    assert books.ledger.deficit(on_gpu(100), (), returned=True) == ()
    assert books.ledger.roomy(())[0][GPU] == 100


def test_what_did_not_come_back_in_time_is_somebody_elses(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)
    books.read(free=60)

    assert books.ledger.next_return == 6.0
    assert books.ends(after=3.9) is False
    assert books.ends(after=0.1) is True
    assert (books.free, books.external) == (60, 40)
    books.read(free=60)
    assert (books.free, books.external) == (60, 40)
    books.read(free=100)
    assert (books.free, books.external) == (100, 0)


def test_without_a_reading_since_the_exit_it_is_free_when_its_time_is_over(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)
    books.read(free=40, stale=True)

    assert books.ends(after=5.0) is True
    assert (books.free, books.external) == (100, 0)


def test_while_something_returns_a_reading_may_only_raise_the_external(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=30)
    assert books.external == 10
    books.exit(1)

    books.read(free=95)
    assert books.external == 10
    books.read(free=95)
    assert books.external == 5


def test_others_that_take_what_returns_are_seen_when_its_time_is_over(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)
    books.read(free=40)
    assert books.external == 0

    books.read(free=40, after=5.0)
    assert (books.free, books.external) == (40, 60)


def test_of_what_returns_no_more_is_expected_than_is_in_use_beside_what_is_held(books):
    books.ledger.hold(1, on_gpu(60))
    books.ledger.hold(2, on_gpu(30))
    books.read(free=10)
    books.exit(1)

    books.read(free=50)

    assert (books.free, books.external) == (50, 0)


def test_what_loads_explains_nothing_of_what_is_still_in_use(books):
    """It may not have taken its memory yet: what is in use may be what returns."""
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40)
    books.exit(1)
    books.ledger.hold(2, on_gpu(40))

    books.read(free=40, moving=[2])

    assert books.free == 0


def test_with_processes_listed_what_returns_is_told_from_what_others_take(books):
    books.ledger.hold(1, on_gpu(60))
    books.read(free=40, foreign=0)
    books.exit(1)

    books.read(free=40, foreign=50)

    assert books.external == 50
    assert books.free == 40


def test_on_the_host_pages_are_free_with_the_exit(books):
    books.read(free=100, device=HOST, foreign=0)
    books.ledger.hold(1, Need(((HOST, 20),), ((FILE, 40),)))
    books.exit(1)

    assert books.ledger.free()[0][HOST] == 100


def test_an_exit_of_one_that_held_nothing_returns_nothing(books):
    books.read(free=100)
    books.exit(1)

    assert books.ledger.next_return is None


def test_what_an_exit_returns_on_a_device_that_is_not_known_is_not_counted(books):
    books.ledger.hold(1, Need(((OTHER, 50),)))
    books.read(free=100)
    books.exit(1)

    assert books.free == 100


# A device that serves one process at a time -----------------------------------------------


def test_an_exclusive_device_is_held_whole_by_whoever_is_on_it(books):
    books.ledger.hold(1, on_gpu(10))
    books.read(free=90, exclusive=True)

    assert books.free == 0
    assert books.ledger.deficit(on_gpu(1), ()) == ((GPU, 1),)
    assert books.ledger.deficit(on_gpu(100), {1}) == ()
    assert books.ledger.frees(1) == ((GPU, 100),)


def test_an_exclusive_device_is_promised_whole(books):
    books.read(free=100, exclusive=True)

    assert books.ledger.deficit(on_gpu(1), (), [on_gpu(1)]) == ((GPU, 1),)
    assert books.ledger.deficit(on_gpu(1), (), [Need(((OTHER, 1),))]) == ()


def test_one_that_has_nothing_on_an_exclusive_device_keeps_nobody_off_it(books):
    books.ledger.hold(1, Need(((GPU, 0), (HOST, 5))))
    books.read(free=100, exclusive=True)

    assert books.ledger.deficit(on_gpu(100), ()) == ()


# Deficits and what helps ------------------------------------------------------------------


def test_what_is_left_of_a_deficit_and_how_much_helps():
    deficit = ((GPU, 10), (HOST, 5))

    assert left_of(deficit, ((GPU, 10), (HOST, 2))) == ((HOST, 3),)
    assert left_of(deficit, ((GPU, 12), (HOST, 5), (OTHER, 9))) == ()
    assert helps(deficit, ((GPU, 12), (HOST, 2), (OTHER, 9))) == 12
    assert helps(deficit, ((OTHER, 9),)) == 0
