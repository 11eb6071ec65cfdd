"""What a command answers, whichever provider runs it: the cases, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.processes import LEFT_BEHIND

EXACT = frozenset(
    """
    stdout stderr stdout_bytes stderr_bytes stdout_truncated stderr_truncated exit_code timed_out cancelled
    """.split()
)


@dataclass(frozen=True)
class Case:
    """A command, what is known of its answer, and in what all providers must agree."""

    command: str | tuple[str, ...]
    expected: Mapping[str, object] = field(default_factory=dict)
    same: frozenset[str] = EXACT
    environment: Mapping[str, str] = field(default_factory=dict)
    env_allowlist: frozenset[str] | None = None
    timeout: float | None = None
    """Seconds that it is to reach; None: it does not."""
    limit: int = 1 << 20
    cancelled_when: bytes | None = None
    """Cancelled when the output has these bytes."""
    needs: tuple[str, ...] = ()
    """What an old build may lack."""
    files: Mapping[str, str] = field(default_factory=dict)
    """In the folder before."""


def answers(stdout: str = "", stderr: str = "", exit_code: int = 0) -> dict[str, object]:
    return {"stdout": stdout, "stderr": stderr, "exit_code": exit_code, "timed_out": False, "cancelled": False}


SAID = EXACT - {"stderr", "stderr_bytes"}
"""bash remarks "Terminated" if it sees its child's end before its own."""
FLAGS = EXACT - {"stdout", "stderr", "stdout_bytes", "stderr_bytes"}
OUTLIVING = (
    "in a session of its own",
    "forked twice",
    "stopped",
    "stopped, in a session of its own",
    "deaf to TERM, forked twice, in a session of its own",
)
"""Of those left behind: what a timeout could miss, each of which takes its time here."""

CASES: Mapping[str, Case] = {
    # exit codes and signals
    "true": Case("true", answers()),
    "an exit code": Case("exit 3", answers(exit_code=3)),
    "the highest exit code": Case("exit 255", answers(exit_code=255)),
    "killed": Case("kill -9 $$", answers(exit_code=137)),
    "terminated": Case("kill -TERM $$", answers(exit_code=143)),
    "crashed": Case("kill -SEGV $$", answers(exit_code=139)),
    "hung up": Case("kill -HUP $$", answers(exit_code=129)),
    "interrupted": Case("kill -INT $$", answers(exit_code=130)),
    "a broken pipe": Case("kill -PIPE $$", answers(exit_code=141)),
    "no such program": Case("no-such-program 2>/dev/null", answers(exit_code=127)),
    "signals are not ignored": Case("trap", answers()),
    "a parse error": Case("if", same=FLAGS, expected={"exit_code": 2}),
    # streams
    "both streams": Case("echo out; echo err >&2", answers("out\n", "err\n")),
    "no newline": Case("printf no-newline", answers("no-newline")),
    "unicode": Case("echo 'grüße €😀'", answers("grüße €😀\n")),
    "invalid UTF-8": Case(r"printf 'a\xff\xc3(b'", answers("a\ufffd\ufffd(b")),
    "binary": Case(r"printf '\x00\x01\xfe\xff'; head -c 3000 /dev/zero", answers("\0\x01\ufffd\ufffd" + "\0" * 3000)),
    "50,000 small lines": Case(
        "for ((i = 0; i < 50000; i++)); do echo $i; done", answers("".join(f"{i}\n" for i in range(50_000)))
    ),
    "more than is kept": Case(
        "printf START; head -c 5000000 /dev/zero; printf END; head -c 300000 /dev/zero >&2",
        {"stdout_bytes": 5_000_008, "stderr_bytes": 300_000, "stdout_truncated": True, "stderr_truncated": True},
        limit=10_000,
    ),
    "through a process that outlives the shell": Case("exec > >(cat); echo through", answers("through\n")),
    "descriptors": Case(
        "for ((n = 0; n < 200; n++)); do { true >&$n; } 2>/dev/null && echo $n; done; true", same=FLAGS | {"stderr"}
    ),
    # what it is given
    "several lines": Case("echo one | tr a-z A-Z && echo two\necho three", answers("ONE\ntwo\nthree\n")),
    "a leading dash": Case("-x 2>/dev/null", answers(exit_code=127)),
    "nothing": Case("", answers()),
    "the shell": Case(
        "echo $0; shopt -q login_shell || echo no login; [[ $- == *i* ]] || echo not interactive",
        answers("/bin/bash\nno login\nnot interactive\n"),
    ),
    "the working directory": Case("pwd; cd ..; pwd"),
    "no shell": Case(("printf", "%s|", "a b", "$HOME", "*", "", "ü"), answers("a b|$HOME|*||ü|")),
    "no shell, by path": Case(("/bin/echo", "-n", "x"), answers("x")),
    "no shell, exit code": Case(("sh", "-c", "exit 9"), answers(exit_code=9)),
    "no shell, a script of the workspace": Case(
        ("bash", "script", "1 2"), answers("1 2\n"), files={"script": "echo $1"}
    ),
    "stdin is empty": Case("cat; read -r line; echo $?", answers("1\n")),
    "the caller's variables": Case("echo $A-$LANG", answers("1-C\n"), environment={"A": "1", "LANG": "C"}),
    "a variable with everything": Case('echo "$A"', answers("x=y\nz 'q' €\n"), environment={"A": "x=y\nz 'q' €"}),
    "the environment": Case("unset WAP_COMMAND_ID CASE_MARK; env | sort"),
    "the environment, no shell": Case(("sh", "-c", "env | grep -v -e ^WAP_ -e ^CASE_ -e ^PWD= | sort")),
    "only what is allowed": Case(
        'echo "$A-$LANG-${PATH:+path}"', answers("1--path\n"), environment={"A": "1"}, env_allowlist=frozenset("A")
    ),
    "an allowlist, and what the server and the shell set themselves": Case(
        "unset CASE_MARK; env | cut -d= -f1 | grep -v ^GIT_CONFIG_ | LC_ALL=C sort | tr '\\n' ' '",
        answers("A PATH PWD SHLVL WAP_COMMAND_ID _ "),
        environment={"A": "1"},
        env_allowlist=frozenset({"A", "MISSING"}),
    ),
    "the server's variables": Case("env | grep -i -e token -e s3cret", answers(exit_code=1)),
    "umask": Case("umask"),
    # files
    "makes files": Case(
        "mkdir -p a/b && echo x > a/b/c && chmod 640 a/b/c && ln -s b a/l && cat a/l/c", answers("x\n")
    ),
    "reads files": Case("cat one two", answers("1\n2\n"), files={"one": "1\n", "two": "2\n"}),
    "renames and removes": Case(
        "mv one three; rm two; ls", answers("three\n"), files={"one": "", "two": ""}, needs=("statx",)
    ),
    "odd names": Case("echo x > $'a\\nb'; echo y > 'ü €'; echo z > -n; cat $'a\\nb' 'ü €' ./-n", answers("x\ny\nz\n")),
    "an executable": Case("chmod +x script; ./script", answers("hi\n"), files={"script": "#!/bin/sh\necho hi\n"}),
    "temporary files": Case("f=$(mktemp) && echo x > $f && cat $f && rm $f", answers("x\n")),
    # the end
    "a timeout": Case(
        "trap 'echo bye; exit 5' TERM; echo hello; while :; do sleep 0.01; done",
        {"stdout": "hello\nbye\n", "exit_code": 5, "timed_out": True},
        same=SAID,
        timeout=1.0,
    ),
    "a timeout that is not listened to": Case(
        "trap '' TERM; echo hello; while :; do sleep 0.01; done",
        {"stdout": "hello\n", "exit_code": 137, "timed_out": True},
        timeout=1.0,
    ),
    "a flood without end": Case(
        "exec yes",
        {"exit_code": 143, "timed_out": True, "stdout_truncated": True},
        same=FLAGS,
        timeout=1.0,
        limit=1000,
    ),
    "cancelled": Case(
        "echo ready; sleep 1000", {"cancelled": True, "exit_code": 143}, same=SAID, cancelled_when=b"ready"
    ),
    "cancelled, with a pipeline": Case(
        "echo ready; sleep 1000 | sleep 1000", {"cancelled": True, "exit_code": 143}, same=SAID, cancelled_when=b"ready"
    ),
    **{
        f"left behind: {name}": Case(f"{command}; exit 7", {"stdout": "ready\n", "exit_code": 7}, same=SAID)
        for name, command in LEFT_BEHIND.items()
    },
    **{
        f"cancelled: {name}": Case(
            f"{command}; sleep 1000",
            {"stdout": "ready\n", "exit_code": 143, "cancelled": True},
            same=SAID,
            cancelled_when=b"ready",
        )
        for name, command in LEFT_BEHIND.items()
    },
    **{
        f"a timeout: {name}": Case(
            f"{LEFT_BEHIND[name]}; exec sleep 1000",
            {"stdout": "ready\n", "stderr": "", "exit_code": 143, "timed_out": True},
            timeout=0.3,
        )
        for name in OUTLIVING
    },
}
