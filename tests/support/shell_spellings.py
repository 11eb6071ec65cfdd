"""Random scripts that run what the preset permissive blocks or asks about, written in many ways, among honest ones."""

from __future__ import annotations

from random import Random

from tests.support.shell_grammar import FRAMES, SEPARATORS, script

TARGETS = (
    *(("sudo", "id"), ("su", "-c id"), ("doas", "id"), ("pkexec", "id")),
    *(("rm", "-rf ~"), ("rm", "-fr /"), ("rm", "-r $HOME"), ("rm", "~ -R"), ("rm", "--recursive ~/")),
)
BLOCKED = frozenset(name for name, _ in TARGETS if name != "rm")
RUNNERS = (
    *("{}", "env {}", "nice {}", "timeout 5 {}", "command {}", "exec {}", "coproc {}", "prlimit {}", "setsid -w {}"),
    *("env -S '{}'", "env --split '{}'", "bash -c '{}'", "bash -c +x '{}'", "bash -c -o errexit '{}'", "eval '{}'"),
    *("bash <<< '{}'", "bash <<'E'\n{}\nE\n", "echo '{}' | sh", "source /dev/stdin <<< '{}'", "flock f -c '{}'"),
    *('f() {{ "$@"; }}; f {}', "let 'a[$({})]'", 'echo "${{x:-`{}`}}"', "cat <<-E\n\t`{}`\n\tE\n", "trap '{}' EXIT"),
    *("find . -maxdepth 0 -exec {} ;", "echo | xargs {}", "git -c alias.x='!{}' x", "awk 'BEGIN{{system(\"{}\")}}'"),
    *("x='{}'; $x", "x='{}'; eval \"$x\"", "sh -c '$0 $1 $2' {}", "x=1; {}", "( {} )", "if true; then {}; fi"),
    *(
        "echo $(echo $({}))",
        "test -v 'a[$({})]'",
        "printf -v 'a[$({})]' x",
        "{} & wait",
        "echo $'a\\\\' ; {} ; echo 'b'",
    ),
)


def blocked_script(random: Random) -> str:
    """Something that is not allowed to run, or an honest script, or both."""
    parts = [script(random)] if random.random() < 0.5 else []
    if random.random() < 0.8:
        name, rest = random.choice(TARGETS)
        text = random.choice(RUNNERS).format(f"{_spelt(name, random)} {rest}")
        if random.random() < 0.2:
            text = random.choice(FRAMES).format(text)
        parts.insert(random.randrange(len(parts) + 1), text)
    return random.choice(SEPARATORS[:5]).join(parts)


def _spelt(name: str, random: Random) -> str:
    at = random.randrange(len(name))
    before, letter, after = name[:at], name[at], name[at + 1 :]
    return random.choice(
        (
            *(
                name,
                name,
                f"./{name}",
                f"{before}'{letter}'{after}",
                f'{before}"{letter}"{after}',
                f"{before}\\{letter}{after}",
            ),
            *(
                f"{before}$'\\{ord(letter):o}'{after}",
                f"$'{before}\\x{ord(letter):x}{after}'",
                f"{before}\\\n{letter}{after}",
            ),
            *(
                f"./{before}?{after}",
                f"./{before}[{letter}]{after}",
                f"./{before}[!_]{after}",
                f"./{before}[[:lower:]]{after}",
            ),
            *(
                f"{before}{{{letter},}}{after}",
                f"{before}{{{letter}..{letter}}}{after}",
                f"${{NONE:-{name}}}",
                f"${{HOME:+{name}}}",
            ),
            *(
                f"{before}${{NONE-{letter}}}{after}",
                f"{before}''{letter}{after}",
                f'$"{name}"',
                f"{before}${{NONE}}{letter}{after}",
                f"{before}$@{letter}{after}",
                f"{before}$NONE'{letter}'{after}",
            ),
        )
    )
