"""Methods are found by name, and a misspelt name is answered with the nearest one."""

import pytest

from bandana import registry
from bandana.errors import UserError
from bandana.method import Method
from bandana.methods.bandana import Bandana
from bandana.registry import all_methods, get_method, register


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_METHODS", dict(all_methods()))


def test_every_file_of_the_package_registers_a_method() -> None:
    from pathlib import Path

    import bandana.methods

    files = {path.stem for path in Path(bandana.methods.__path__[0]).glob("*.py")} - {"__init__"}
    homes = {method.__module__.rpartition(".")[2] for method in all_methods().values()}
    assert homes == files
    assert list(all_methods()) == sorted(all_methods())


def test_a_method_is_found_by_its_name() -> None:
    assert get_method("bandana") is Bandana


def test_a_misspelt_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^There is no method 'bandanna'\. Did you mean 'bandana'\?$"):
        get_method("bandanna")
    with pytest.raises(UserError, match=r"Choose from: .*bandana"):
        get_method("zzz")


@pytest.mark.usefixtures("own_registry")
def test_registering() -> None:
    class Mine(Method):
        pass

    assert register("mine")(Mine) is Mine
    assert get_method("mine") is Mine
    assert register("mine")(Mine) is Mine


@pytest.mark.usefixtures("own_registry")
def test_two_methods_cannot_share_a_name() -> None:
    class Other(Method):
        pass

    with pytest.raises(ValueError, match=r"two methods are registered as 'bandana': Bandana, .*Other"):
        register("bandana")(Other)


def test_what_is_returned_is_a_copy() -> None:
    all_methods().clear()
    assert "bandana" in all_methods()
