"""The health port of a worker, as its clients see it."""
import http.client
import socket

from prometheus_client.parser import text_string_to_metric_families

from harness import wait_until


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        return True
    except OSError:
        return False


LOOPBACK = ["127.0.0.1", *(["::1"] if has_ipv6() else [])]


class Port:
    """The health port of a worker, as any HTTP client sees it."""

    def __init__(self, number, host="127.0.0.1"):
        self.number, self.host = number, host

    def ask(self, path, method="GET", body=None, timeout=10):
        """Status, body and headers."""
        client = http.client.HTTPConnection(self.host, self.number, timeout=timeout)
        try:
            client.request(method, path, body)
            answer = client.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            client.close()

    def page(self, path):
        """Status and body; None and why if there is no answer."""
        try:
            return self.ask(path)[:2]
        except OSError as error:
            return None, str(error)

    def status(self, path):
        return self.page(path)[0]

    def wait(self, path, status, text=""):
        def is_there():
            got, body = self.page(path)
            return got == status and text in body
        wait_until(is_there, lambda: f"{status} {text!r} at {path}: {self.page(path)}")

    def metrics(self):
        """{(name, labels…): value}"""
        return {(sample.name, *sample.labels.values()): sample.value
                for family in text_string_to_metric_families(self.ask("/metrics")[1]) for sample in family.samples}

    def wait_metric(self, key, value):
        wait_until(lambda: self.metrics().get(key) == value, lambda: f"{key} to be {value}: {self.metrics()}")

    def connect(self, number=0):
        """From one of many addresses: those of one are counted."""
        return socket.create_connection((self.host, self.number), timeout=30, source_address=(f"127.0.0.{1 + number % 10}", 0))
