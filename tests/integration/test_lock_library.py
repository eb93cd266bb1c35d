"""The lock library as others have it: installed, with programs of their own in C and in Python. What it does is in tests/unit/test_lock*.c."""
import os
import re
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from harness import BIN, environment, wait_until

pytestmark = pytest.mark.slow  # no library that programs could link is made under the sanitizers
ROOT = BIN.parent if (BIN.parent / "CMakeLists.txt").is_file() else BIN.resolve().parent
EXAMPLES = ROOT / "examples" / "python"


def built(*command, **more):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    built("cmake", "--install", BIN, "--prefix", prefix)
    for pc in prefix.glob("lib/**/pkgconfig/*.pc"):  # it names the prefix that the tree was set up for
        pc.write_text(re.sub(r"^(prefix|libdir|includedir)=.*$", lambda line: {
            "prefix": f"prefix={prefix}", "libdir": f"libdir={pc.parent.parent}", "includedir": f"includedir={prefix}/include"}[line[1]],
            pc.read_text(), flags=re.M))
    return prefix


def libraries(prefix):
    return next(prefix.glob("lib/**/libpawl-lock.so")).parent


def pkg_config(prefix, *words):
    return built("pkg-config", *words, env={**os.environ, "PKG_CONFIG_PATH": str(libraries(prefix) / "pkgconfig")}).split()


# --- the library ---


def exported(path, *options):
    return set(re.findall(r"^\S* *[A-TV-Z] (\S+)$", built("nm", *options, "--defined-only", path), re.M))


def declared(prefix, header):
    text = (prefix / "include" / "pawl" / header).read_text()
    return set(re.findall(r"^PAWL_(?:API|MUST_CHECK) .*?\*?(pawl_\w+)\(", text, re.M))


@pytest.mark.parametrize("name, headers", [("pawl-lock", ["lock.h"]), ("pawl-lock-memory", ["lock.h", "lock_memory.h"])])
def test_only_the_api_is_seen(installed, name, headers):
    api = set().union(*(declared(installed, header) for header in headers))
    shared = {symbol.split("@")[0] for symbol in exported(libraries(installed) / f"lib{name}.so", "-D")} - {"PAWL_LOCK_0"}
    assert shared == api
    assert {symbol for symbol in exported(libraries(installed) / f"lib{name}.a", "-g")} == api


def test_man_pages(installed):
    pages = {page.stem for page in (installed / "share/man/man3").glob("*.3")}
    assert pages == declared(installed, "lock.h") | {"libpawl-lock"}
    for page in (installed / "share/man/man3").glob("*.3"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", "-K", "utf8", page], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stderr == "", (page, done)


# --- a program in C ---


PROGRAM = r"""
#include <pawl/lock.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
  struct pawl_options options = {.size = sizeof options, .uri = argv[1], .db = argv[2], .program = "user"};
  struct pawl_error error;
  struct pawl *pawl;
  long long number;
  if (argc != 5 || pawl_open(&options, &pawl, &error) != PAWL_OK)
    return 1;
  for (int i = 0; i < atoi(argv[4]); i++) {
    pawl_hold hold;
    if (pawl_take(pawl, "counter", PAWL_FOR_EVER, &hold, &error) != PAWL_OK) {
      fprintf(stderr, "%s\n", error.text);
      return 1;
    }
    FILE *file = fopen(argv[3], "r+");
    if (fscanf(file, "%lld", &number) != 1)
      return 1;
    rewind(file);
    fprintf(file, "%lld\n", number + 1);
    fclose(file);
    if (pawl_release(pawl, hold, &error) != PAWL_OK)
      fprintf(stderr, "%s\n", error.text);
  }
  pawl_close(pawl);
  return 0;
}
"""


def compiled(prefix, folder, *words):
    (folder / "user.c").write_text(PROGRAM)
    built("cc", "-Wall", "-Werror", folder / "user.c", "-o", folder / "user", *words)
    return folder / "user"


def count(program, field, folder, processes, times, **env):
    number = folder / "number"
    number.write_text("0\n")
    running = [subprocess.Popen([program, field.server.uri, field.db.name, number, str(times)], env=environment(**env), stderr=subprocess.PIPE)
               for _ in range(processes)]
    done = [(process.communicate(timeout=200)[1], process.returncode) for process in running]
    assert done == [(b"", 0)] * processes, done
    return int(number.read_text())


def test_shared(field, installed, tmp_path):
    """A number in a file, to which many processes add one."""
    user = compiled(installed, tmp_path, *pkg_config(installed, "--cflags", "--libs", "pawl-lock"))
    assert count(user, field, tmp_path, 8, 25, LD_LIBRARY_PATH=libraries(installed)) == 200


def test_static(field, installed, tmp_path):
    flags = [word for word in pkg_config(installed, "--static", "--cflags", "--libs", "pawl-lock") if word != "-lpawl-lock"]
    user = compiled(installed, tmp_path, libraries(installed) / "libpawl-lock.a", *flags)
    assert "libpawl-lock" not in built("ldd", user)
    assert count(user, field, tmp_path, 2, 5) == 10


def test_cmake(field, installed, tmp_path):
    (tmp_path / "user.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(user C)\nfind_package(pawl-lock 0.1 REQUIRED)\n"
                                             "add_executable(user user.c)\ntarget_link_libraries(user pawl::lock)\n")
    config = next(installed.glob("lib/**/cmake/pawl-lock/pawl-lock-config.cmake"))
    built("cmake", "-S", tmp_path, "-B", tmp_path / "b", f"-Dpawl-lock_DIR={config.parent}")
    built("cmake", "--build", tmp_path / "b")
    assert count(tmp_path / "b" / "user", field, tmp_path, 1, 2, LD_LIBRARY_PATH=libraries(installed)) == 2


def test_driver_is_the_users(field, installed, tmp_path):
    """What the driver has to say in a program that uses it itself still goes where that program wants it."""
    (tmp_path / "log.c").write_text(r"""
#include <mongoc/mongoc.h>
#include <pawl/lock.h>
static int heard;
static void hear(mongoc_log_level_t level, const char *domain, const char *message, void *context)
{
  (void)level, (void)domain, (void)message, (void)context;
  heard++;
}
int main(int argc, char **argv)
{
  struct pawl_options options = {.size = sizeof options, .uri = argv[1], .db = argv[2]};
  struct pawl *pawl;
  pawl_hold hold;
  (void)argc;
  mongoc_init();
  mongoc_log_set_handler(hear, NULL);
  if (pawl_open(&options, &pawl, NULL) != PAWL_OK || pawl_take(pawl, "n", 10000, &hold, NULL) != PAWL_OK)
    return 1;
  pawl_close(pawl);
  mongoc_log(MONGOC_LOG_LEVEL_WARNING, "mine", "%s", "a warning");
  return heard == 1 ? 0 : 2;
}
""")
    flags = [*pkg_config(installed, "--cflags", "--libs", "pawl-lock"), *built("pkg-config", "--cflags", "--libs", "libmongoc-1.0").split()]
    built("cc", tmp_path / "log.c", "-o", tmp_path / "log", *flags)
    done = subprocess.run([tmp_path / "log", field.server.uri, field.db.name], env=environment(LD_LIBRARY_PATH=libraries(installed)), check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("loop, more", [("epoll", []), ("libev", ["-lev"])])
def test_event_loop(field, installed, tmp_path, loop, more):
    """The examples: two processes, and a name that both want."""
    flags = pkg_config(installed, "--cflags", "--libs", "pawl-lock")
    built("cc", "-Wall", "-Wextra", "-Werror", ROOT / "examples" / "c" / f"{loop}.c", "-o", tmp_path / loop, *flags, *more)
    running = [subprocess.Popen([tmp_path / loop, field.server.uri, field.db.name, *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=environment(LD_LIBRARY_PATH=libraries(installed))) for names in ("ab", "bc")]
    done = [(process.communicate(timeout=60), process.returncode) for process in running]
    said = "".join(out for (out, _), _ in done)
    assert [(errors, code) for (_, errors), code in done] == [("", 0)] * 2, done
    assert sorted(re.findall(r"^(\w): worked under token (\d+)$", said, re.M)) == [("a", "1"), ("b", "1"), ("b", "2"), ("c", "1")], done
    assert said.count(": released\n") == 4 and said.count(": held\n") == 4 and re.search("^b: .* held by ", said, re.M), done


# --- Python ---


@pytest.fixture
def python(field, installed):
    """Runs lines of Python with the module, and `locks`, a handle on the field's database."""
    def start(code, lease=10):
        head = f"import pawl_lock, sys, time\nlocks = pawl_lock.Locks({field.server.uri!r}, {field.db.name!r}, 'example', lease={lease})\n"
        return subprocess.Popen([sys.executable, "-c", head + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(
            PYTHONPATH=EXAMPLES, PYTHONDONTWRITEBYTECODE=1, PAWL_LOCK_LIBRARY=libraries(installed) / "libpawl-lock.so"))
    return start


def ends(process):
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


def test_python_takes_and_releases(python):
    assert ends(python("""
with locks.take("n", wait=5) as hold:
    print(hold.token, hold.slot, hold.left > 5)
    try:
        locks.take("n", wait=0)
    except pawl_lock.PawlError as error:
        print(error.result)
    hold.check()
a, b = locks.take_all(["b", "a"], wait=5, slots=3)
print(a.name, b.name, a.slot, hold.left)
locks.close()
""")) == "1 0 True\nPAWL_HELD\nb a 0 0.0\n"


def test_python_is_told_of_a_loss(python):
    """By select, at once, with the reason that a person gave."""
    holder = python("""
import select
hold = locks.take("n")
print("held", flush=True)
select.select([hold], [], [])
try:
    hold.check()
except pawl_lock.Lost as error:
    print(error)
""", lease=60)
    assert holder.stdout.readline() == "held\n"
    assert ends(python('locks.break_lock("n", "the machine is to be moved")')) == ""
    assert "the machine is to be moved (by " in ends(holder)


def freeze_and_wake(holder, other):
    """Stops the holder beyond its lease, has the other work meanwhile, and wakes it up."""
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGSTOP)
    out = ends(other)
    holder.send_signal(signal.SIGCONT)
    return out, ends(holder)


SLEEPER = """
hold = locks.take("n")
print("held", flush=True)
while hold.left > 0 and {checks}:
    time.sleep(0.05)
time.sleep(0.5)
try:
    {write}
    print("written")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("guard", [True, False], ids=["guarded", "not guarded"])
def test_a_file_refuses_who_woke_up_late(python, tmp_path, guard):
    """With the token it is refused, and without it the late write gets through."""
    path = str(tmp_path / "out")
    write = f"pawl_lock.file_append({path!r}, hold.token, b'late\\n')" if guard else f"open({path!r}, 'a').write('late\\n')"
    other = f"hold = locks.take('n')\npawl_lock.file_append({path!r}, hold.token, b'new\\n')\nhold.release()"
    holder = python(SLEEPER.format(checks="True", write=write), lease=2)
    wait_until(lambda: select.select([holder.stdout], [], [], 0)[0], lambda: "the holder")
    _, said = freeze_and_wake(holder, python(other, lease=2))
    assert ("\n" + said).count("\nLost ") == guard, said  # the driver may have said something before
    assert (tmp_path / "out").read_text() == ("new\n" if guard else "new\nlate\n")


def test_a_service_refuses_who_woke_up_late():
    with subprocess.Popen([sys.executable, EXAMPLES / "guarded_server.py"], stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())

        def put(body, **headers):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/x", body.encode(), headers, method="PUT")
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code
        try:
            token = lambda number: {"Pawl-Token": str(number)}
            assert [put("a", **token(7)), put("b", **token(6)), put("c", **token(7)), put("d"), put("e", **token("x"))] == [204, 409, 204, 400, 400]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/x", timeout=10) as answer:
                assert answer.read() == b"c"
        finally:
            server.terminate()


# --- the stories ---


@pytest.mark.parametrize("story", ["one_writer", "notifications", "approve_once", "pool", "events"])
def test_stories(field, installed, tmp_path, story):
    done = subprocess.run([sys.executable, ROOT / "examples" / "stories" / f"{story}.py", "--uri", field.server.uri, "--db", field.db.name,
                           "--unit", "0.3", "--svg", tmp_path / "picture.svg"], capture_output=True, text=True, check=False, timeout=120,
                          env=environment(PYTHONDONTWRITEBYTECODE=1, PAWL_LOCK_LIBRARY=libraries(installed) / "libpawl-lock.so"))
    assert done.returncode == 0, done
    assert (tmp_path / "picture.svg").read_text().count("<rect") > 4
