"""The zygote: a Python inside the view that has imported what sessions need, and forks them."""

from __future__ import annotations

import _socket
import gc
import posix as os
import select
import sys

from cloche_guest.environment import use_environment
from cloche_guest.jail import messages, syscalls, worker
from cloche_guest.jail.preload import import_all
from cloche_guest.jail.prepared import PreparedSession
from cloche_guest.jail.template import Templates, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Zygote:
    """Serves the init's requests for workers and tells the host how they ended."""

    def __init__(self, line: _socket.socket, host: _socket.socket, options: dict[str, Any]) -> None:
        self._line = line
        self._host = host
        self._options = options
        self._namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._filters: dict[tuple[bool, bool], worker.Filters] = {}  # by whether with memory files, with a shared user
        self._workers: dict[int, tuple[int, int]] = {}  # pidfd -> pid, and the pipe on which its end is told
        self._watch = select.poll()
        self._templates = Templates()
        self._is_template = False
        self._retired = False

    def imports(self) -> dict[str, str]:
        """Import what is wanted. What could not be imported, and why."""
        return import_all(self._options["preload"], lambda message: messages.send(self._host, message))

    def serve(self) -> None:
        """Until the init goes away."""
        _settle(self._options)
        left_out = {}
        if self._options["preload"]:  # else there is too little memory to be worth the time, and somebody waits
            syscalls.gather_heap()
            left_out = self.imports()
        self._prepare()
        messages.send(self._host, {"ready": True, "left_out": left_out})
        self._loop()

    def _loop(self) -> None:
        """Requests, and the ends of those that were forked. Never returns."""
        self._watch.register(self._line.fileno(), select.POLLIN)
        while True:
            # by handle and not by signal: a signal just before the wait would be heard only after it
            for descriptor, _ in self._watch.poll():
                if descriptor in self._workers:
                    self._reap(descriptor)
                elif descriptor in self._templates:
                    self._watch.unregister(descriptor)
                    messages.send(self._host, {"template_gone": self._templates.reap(descriptor)})
                else:
                    self._take(*messages.receive(self._line))
            if self._retired and not self._workers:
                os._exit(0)

    def _take(self, message: dict[str, Any] | None, descriptors: list[int]) -> None:
        if message is None:
            if not self._is_template:
                os._exit(0)
            self._retired = True  # whoever was forked from here still has to be told of
            self._watch.unregister(self._line.fileno())
        elif "hold" in message:
            self._make_template(message, descriptors[0])
        elif "drop" in message:
            self._templates.drop(message["drop"])
        elif "template" in message and not self._is_template:
            trouble = self._templates.pass_on(message, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            if trouble is not None:
                messages.send(self._host, {"failed": message["id"], "error": trouble})
        else:
            self._fork(message, descriptors)

    def _make_template(self, message: dict[str, Any], stream: int) -> None:
        try:
            ours, theirs = messages.pair()
            pid = self._session.fork()
        except OSError:  # no process or descriptor left: sessions are made without it
            os.close(stream)
            messages.send(self._host, {"template_gone": message["hold"]})
            return
        if pid:
            theirs.close()
            os.close(stream)
            handle = self._templates.add(message["hold"], pid, ours)
            self._watch.register(handle, select.POLLIN)
            return
        try:
            os.setsid()
            ours.close()
            self._leave_zygote(theirs)
            self._session.hold(read_text(stream, message["length"], message["width"], message["highest"]))
            os.close(stream)
            messages.send(self._host, {"template_ready": message["hold"]})
            self._loop()
        finally:
            os._exit(1)

    def _leave_zygote(self, line: _socket.socket) -> None:
        """In a template: what the zygote watches is not ours, and must not be held open by us."""
        self._line.close()
        for handle, (_, end) in self._workers.items():
            os.close(handle)
            os.close(end)
        self._templates.leave()
        self._is_template = True
        self._line, self._workers, self._watch, self._templates = line, {}, select.poll(), Templates()

    def _prepare(self) -> None:
        """What all sessions have in common; in the end none of them shall have to write into it."""
        self._session = PreparedSession()
        if self._options["preload"]:
            self._session.rehearse()
            gc.collect()
        gc.freeze()
        if self._options["preload"]:
            syscalls.settle_heap()

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """A worker, or why there is none: what one request lacks must not end the others."""
        try:
            self._start_worker(request, descriptors)
        except (OSError, ValueError) as exc:  # no process, no room for descriptors here or on their way
            messages.send(self._host, {"failed": request["id"], "error": str(exc)})
        for descriptor in descriptors:
            os.close(descriptor)

    def _start_worker(self, request: dict[str, Any], descriptors: list[int]) -> None:
        wire, out, err, line, inner, end, seat, workspace, *groups = descriptors
        kind = bool(request.get("memfd")), bool(request.get("shared_user"))
        filters = self._filters.get(kind)
        if filters is None:
            filters = self._filters[kind] = worker.make_filters(memfd=kind[0], shared=kind[1])
        syscalls.setns(seat, syscalls.CLONE_NEWPID)
        try:
            pid = self._session.fork()
            if pid == 0:
                worker.run(self._session, request, [wire, out, err, line, inner], seat, filters, groups)
        finally:
            syscalls.setns(self._namespace, syscalls.CLONE_NEWPID)
        pidfd = -1
        try:
            pidfd, end = syscalls.pidfd_open(pid), os.dup(end)
            messages.send(self._host, {"session": request["id"]}, [pidfd, seat, workspace])
        except OSError:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            if pidfd >= 0:
                os.close(pidfd)
            if end not in descriptors:
                os.close(end)
            raise
        self._workers[pidfd] = (pid, end)
        self._watch.register(pidfd, select.POLLIN)

    def _reap(self, pidfd: int) -> None:
        """A worker has ended: take it off the list of processes (its namespace waits for that) and say how it ended."""
        pid, end = self._workers.pop(pidfd)
        self._watch.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        try:
            os.write(end, b"%d" % worker.exit_code(status))
        except OSError:  # nobody wants to know any more
            pass
        os.close(end)


def main(argv: list[str]) -> None:
    """``--zygote FD,FD,FD,FD``: be the zygote of a compiled init (see ``native/init.c``). The descriptors: our line to
    it, its line to the host, the library, the guest's own code."""
    line, host, library, code = (int(number) for number in argv[2].split(","))
    try:
        syscalls.use_library("/proc/self/fd/%d" % library)
    except OSError as exc:
        _give_up("%s cannot load the jail's library: %s" % (sys.executable, exc), line, host)
    os.close(library)
    os.close(code)
    for number in (line, host):
        os.set_inheritable(number, False)
    init = _socket.socket(fileno=line)
    configuration, _ = messages.receive(init)
    if configuration is None:
        os._exit(0)
    Zygote(init, _socket.socket(fileno=host), configuration["zygote"]).serve()


def _give_up(why: str, line: int, host: int) -> None:
    """Tell whoever waits for the first session, on its standard error, and the host."""
    why += " (pass python=/path/to/a/python of this system)"
    init = _socket.socket(fileno=line)
    _, _ = messages.receive(init)  # the configuration
    request, descriptors = messages.receive(init)
    if request is not None and len(descriptors) > worker.ERR - worker.WIRE:
        os.write(descriptors[worker.ERR - worker.WIRE], why.encode())
    messages.send(_socket.socket(fileno=host), {"error": why})
    os._exit(1)


def _settle(options: dict[str, Any]) -> None:
    """The search path of the interpreter, as the host found it, and an environment made from nothing."""
    use_environment(options["environment"])
    sys.path[:] = options["path"]
    sys.prefix, sys.exec_prefix = options["prefix"], options["exec_prefix"]
