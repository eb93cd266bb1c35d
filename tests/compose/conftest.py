import pytest

from stack import Stack


@pytest.fixture
def make_stack(request):
    made = []

    def make(kind="one", **options):
        made.append(Stack(kind, **options))
        return made[-1]
    yield make
    for stack in made:
        try:
            if getattr(request.node, "failed", False):
                print(stack.compose("ps", check=False).stdout.decode(), stack.compose("logs", "--no-color", "--tail", "40", "worker", "worker-t2", check=False).stdout.decode())
        finally:
            stack.remove()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        item.failed = True
