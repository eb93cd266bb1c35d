"""The locks of pawl for Python, over the shared library libpawl-lock. One file, to be copied where it is needed.

    import pawl_lock

    with pawl_lock.Locks("mongodb://localhost", program="billing") as locks:
        with locks.take("payments", wait=10) as hold:
            ...                      # hold.token goes with whatever is written
            hold.check()             # raises Lost: call it before each step that needs the lock

The manual is pawl/lock.h. Times are seconds. All failures are `PawlError`; `error.result` is the name of the library's result.
PAWL_LOCK_LIBRARY in the environment names another library, such as libpawl-lock.so in a build tree.
"""
import ctypes
import ctypes.util
import os

NO_WAIT, FOR_EVER = 0, -1


class PawlError(Exception):
    """A call has failed."""

    def __init__(self, result, text):
        super().__init__(text)
        self.result = result


class NotTaken(PawlError):
    """The lock is held by another: PAWL_BUSY without waiting, PAWL_TIMEOUT otherwise."""


class Lost(PawlError):
    """The hold is lost; the text says why."""


class _Error(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int), ("text", ctypes.c_char * 1020)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("uri", ctypes.c_char_p), ("db", ctypes.c_char_p), ("program", ctypes.c_char_p),
                ("lease_ms", ctypes.c_int64), ("retry_ms", ctypes.c_int64)]


class _Want(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("slots", ctypes.c_int)]


class _Document(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("collection", ctypes.c_char_p), ("field", ctypes.c_char_p), ("filter", ctypes.c_char_p),
                ("sort", ctypes.c_char_p)]


class _Terms(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("wait_ms", ctypes.c_int64), ("longest_ms", ctypes.c_int64)]


def _load():
    path = os.environ.get("PAWL_LOCK_LIBRARY") or ctypes.util.find_library("pawl-lock") or "libpawl-lock.so.0"
    library = ctypes.CDLL(path)
    handle, hold, error = ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(_Error)
    for name, result, arguments in (
            ("pawl_result_name", ctypes.c_char_p, [ctypes.c_int]),
            ("pawl_open", ctypes.c_int, [ctypes.POINTER(_Options), ctypes.POINTER(handle), error]),
            ("pawl_close", None, [handle]),
            ("pawl_take_all", ctypes.c_int,
             [handle, ctypes.POINTER(_Want), ctypes.c_size_t, ctypes.POINTER(_Terms), ctypes.POINTER(hold), error]),
            ("pawl_release", ctypes.c_int, [handle, hold, error]),
            ("pawl_left_ms", ctypes.c_int64, [handle, hold]),
            ("pawl_token", ctypes.c_int64, [handle, hold]),
            ("pawl_slot", ctypes.c_int, [handle, hold]),
            ("pawl_hold_fd", ctypes.c_int, [handle, hold]),
            ("pawl_reason", ctypes.c_int, [handle, hold, error]),
            ("pawl_document_take", ctypes.c_int,
             [handle, ctypes.POINTER(_Document), ctypes.POINTER(_Terms), ctypes.POINTER(hold), error]),
            ("pawl_document_bytes", ctypes.c_void_p, [handle, hold]),
            ("pawl_document_update", ctypes.c_int, [handle, hold, ctypes.c_char_p, error]),
            ("pawl_break", ctypes.c_int, [handle, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, error]),
            ("pawl_file_append", ctypes.c_int, [ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t, error])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


def _check(result, error):
    if result == 0:
        return
    name = _library.pawl_result_name(result).decode()
    kind = NotTaken if name in ("PAWL_BUSY", "PAWL_TIMEOUT") else Lost if name in ("PAWL_LOST", "PAWL_FENCED") else PawlError
    raise kind(name, error.text.decode(errors="replace"))


def _ms(seconds):
    return seconds if seconds <= 0 else max(1, int(seconds * 1000))


class Hold:
    """A lock that is held; a context manager that releases it."""

    def __init__(self, locks, name, number):
        self._locks, self.name, self._number = locks, name, number
        self.token = _library.pawl_token(locks._handle, number)
        self.slot = _library.pawl_slot(locks._handle, number)

    @property
    def left(self):
        """For how many seconds it is good without a further renewal; 0: it is lost."""
        return _library.pawl_left_ms(self._locks._handle, self._number) / 1000

    def check(self):
        """Raises Lost, with the reason, if it is lost."""
        if self.left == 0:
            error = _Error()
            _library.pawl_reason(self._locks._handle, self._number, ctypes.byref(error))
            raise Lost("PAWL_LOST", error.text.decode(errors="replace") or f"{self.name} is not held")

    def fileno(self):
        """For select, selectors, asyncio: it becomes readable when the hold is lost. It is closed by the release."""
        return _library.pawl_hold_fd(self._locks._handle, self._number)

    def release(self):
        """Raises Lost if it was lost before; it is gone either way."""
        error = _Error()
        _check(_library.pawl_release(self._locks._handle, self._number, ctypes.byref(error)), error)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.release()
        except PawlError:
            if kind is None:
                raise


class DocumentHold(Hold):
    """A document that is locked in place. BSON goes in and out as bytes: bson.encode and bson.decode of pymongo make and read it."""

    def __init__(self, locks, name, number):
        super().__init__(locks, name, number)
        at = _library.pawl_document_bytes(locks._handle, number)
        self.document = ctypes.string_at(at, int.from_bytes(ctypes.string_at(at, 4), "little"))

    def update(self, operators):
        """Writes it by MongoDB's operators, if it is still locked by this hold: raises Lost otherwise."""
        error = _Error()
        _check(_library.pawl_document_update(self._locks._handle, self._number, operators, ctypes.byref(error)), error)


class Locks:
    """A handle: one for a process is enough, for any number of locks and threads."""

    def __init__(self, uri=None, db=None, program=None, lease=30, retry=0.1):
        self._handle, error = ctypes.c_void_p(), _Error()
        text = [None if value is None else value.encode() for value in (uri, db, program)]
        options = _Options(ctypes.sizeof(_Options), *text, _ms(lease), _ms(retry))
        _check(_library.pawl_open(ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(error)), error)

    def take(self, name, wait=FOR_EVER, slots=1, longest=0):
        """Takes a lock: waits for so many seconds, NO_WAIT or FOR_EVER. Raises NotTaken."""
        return self.take_all([name], wait, longest, slots)[0]

    def take_all(self, names, wait=FOR_EVER, longest=0, slots=1):
        """Takes several locks, all or none."""
        error, holds = _Error(), (ctypes.c_uint64 * len(names))()
        wants = (_Want * len(names))(*[_Want(name.encode(), slots) for name in names])
        terms = _Terms(ctypes.sizeof(_Terms), _ms(wait), _ms(longest))
        _check(_library.pawl_take_all(self._handle, wants, len(names), ctypes.byref(terms), holds, ctypes.byref(error)), error)
        return [Hold(self, name, number) for name, number in zip(names, holds)]

    def take_document(self, collection, query, sort=None, wait=FOR_EVER, longest=0, field=None):
        """Locks the first document that matches and that nobody has locked. Query and sort are BSON."""
        error, number = _Error(), ctypes.c_uint64()
        which = _Document(ctypes.sizeof(_Document), collection.encode(), None if field is None else field.encode(), query, sort)
        terms = _Terms(ctypes.sizeof(_Terms), _ms(wait), _ms(longest))
        _check(_library.pawl_document_take(self._handle, ctypes.byref(which), ctypes.byref(terms), ctypes.byref(number), ctypes.byref(error)),
               error)
        return DocumentHold(self, collection, number.value)

    def break_lock(self, name, why, slot=-1):
        """Ends another's hold. The holder learns why."""
        error = _Error()
        _check(_library.pawl_break(self._handle, name.encode(), slot, why.encode(), ctypes.byref(error)), error)

    def close(self):
        """Releases all."""
        _library.pawl_close(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def file_append(path, token, data):
    """Appends to a file, unless a higher token has written: raises Lost then."""
    error = _Error()
    _check(_library.pawl_file_append(os.fsencode(path), token, data, len(data), ctypes.byref(error)), error)
