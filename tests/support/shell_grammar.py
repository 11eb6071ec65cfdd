"""Random shell scripts: honest commands, spoiled in many ways."""

from __future__ import annotations

from random import Random

HONEST = (
    *("ls -la", "cat a.txt", "head -n 2 a.txt", "grep -n x a.txt", "wc -l a.txt", "echo hi", "printf '%s\\n' x", "pwd"),
    *(
        "git status",
        "git log --oneline",
        "git -C sub status",
        "git diff",
        "git branch --list",
        "git grep x",
        "uniq a.txt",
    ),
    *(
        "find . -name a.txt",
        "rg x a.txt",
        "sort a.txt",
        "sed -n 1,2p a.txt",
        "awk '{print $1}' a.txt",
        "tr a b",
        "true",
    ),
    *("cut -d, -f1 a.txt", "cp a.txt b.txt", "mkdir -p d", "touch t", "tee log", "test -f a.txt", "[ a = a ]", "date"),
    *(
        "xargs wc",
        "xargs grep x",
        "xargs -n 1 echo",
        "env ls",
        "timeout 5 ls",
        "nice -n 1 cat a.txt",
        "command ls",
        "time ls",
    ),
    *("stdbuf -oL cat a.txt", "nohup ls", "cd sub", "diff a.txt b.txt", "tar -tf a.tar", "file a.txt", "set -e", "id"),
)
EVIL = (
    *(
        "evil",
        "./evil",
        "sudo id",
        "/bin/evil",
        "curl x",
        "sh -c evil",
        "bash evil",
        "eval evil",
        "exec evil",
        "env evil",
    ),
    *(
        "rm -rf a.txt",
        "find . -exec evil {} +",
        "find . -delete",
        "rg --pre evil x",
        "sort --compress-program=evil a.txt",
    ),
    *("xargs evil", "git -c alias.x=!evil x", "sed '1e evil' a.txt", "awk 'BEGIN{system(\"evil\")}'", "env -S evil"),
    *(
        "source evil",
        ". ./evil",
        "trap evil EXIT",
        "alias ls=evil",
        "printf -v PATH .",
        "test -v 'a[$(evil)]'",
        "tar -xf a",
    ),
    *("command evil", "timeout 1 evil", "nice evil", "xargs -I{} {} x", "time evil", "PATH=. ls", "hash -p ./evil ls"),
)
SEPARATORS = (
    "; ",
    " && ",
    " || ",
    " | ",
    "\n",
    " |& ",
    " ;\n",
    " &&\n",
    " \\\n&& ",
    "&&",
    ";",
    "|",
    " & ",
    " # ",
    " ;; ",
)
ARGUMENTS = (
    *(
        "x",
        "-n",
        "--",
        "-v",
        "'a b'",
        '"a b"',
        "a\\ b",
        "''",
        '""',
        "*",
        "./*",
        "a?.txt",
        "[ab].txt",
        "-*",
        "~",
        "~/x",
        "{}",
    ),
    *(
        "$X",
        '"$X"',
        "${Y}",
        '"${Y}"',
        "$?",
        "$NONE",
        '"-$X"',
        "a$X",
        "--output=o",
        "-o",
        "-exec",
        "-delete",
        "--pre=evil",
    ),
    *(
        "a=b",
        "a=~",
        "\\$X",
        "'$(evil)'",
        '"\\$(evil)"',
        "#",
        "a#b",
        "!",
        "a{b,c}",
        "{1..3}",
        "$'a'",
        '$"a"',
        "%",
        "@",
        "+",
    ),
    *(
        "$(evil)",
        "`evil`",
        "<(evil)",
        '"$(evil)"',
        '"`evil`"',
        "$((1))",
        "${X:-$(evil)}",
        "$[1]",
        "'",
        '"',
        "\\",
        "$",
        "é",
    ),
    *(
        "\u00a0",
        "\r",
        "\x0b",
        "(",
        ")",
        "{",
        "}",
        "&",
        ";evil",
        "|evil",
        "\\\nevil",
        "\\\n",
        "'\n'evil",
        "\nevil",
        ">o",
        "2>&1",
    ),
)
REDIRECTIONS = (
    *(
        ">o",
        "> o",
        ">>o",
        "2>/dev/null",
        "2>&1",
        "<a.txt",
        "&>o",
        ">&o",
        ">|o",
        "<<<x",
        '<<<"$X"',
        "<<<$(evil)",
        "> $X",
    ),
    *(
        "<<'E'\nevil\nE\n",
        "<<E\nevil\nE\n",
        "<<E\n$(evil)\nE\n",
        '<<"E"\n`evil`\nE\n',
        "<<-E\n\tevil\n\tE\n",
        "<<E\nevil\n",
    ),
    *(
        "> >(evil)",
        "< <(evil)",
        ">*",
        "3>&1",
        "1>&-",
        "{fd}>o",
        "<>o",
        ">o evil",
        "<<'E' evil\nE\n",
        "<<\\E\nE\nevil\nE\n",
    ),
)
FRAMES = (
    *(
        "( {} )",
        "{{ {}; }}",
        "if true; then {}; fi",
        "for x in 1; do {}; done",
        "f() {{ {}; }}; f",
        "! {}",
        "$( {} )",
        "`{}`",
    ),
    *(
        "X=1 {}",
        'eval "{}"',
        "bash -c '{}'",
        "coproc {}",
        "[[ -n x ]] && {}",
        "case a in a) {};; esac",
        "time {}",
        "{} &",
    ),
    *(
        "env {}",
        "command {}",
        "timeout 5 {}",
        "nice -n 1 {}",
        "echo x | xargs {}",
        "\\{}",
        "'{}'",
        '"{}"',
        "\n\n{}\n",
        " {} # x",
    ),
)


def script(random: Random) -> str:
    """One to four commands. Most of it is honest, since a script with ten tricks is refused for the first."""
    parts = [_command(random)]
    while len(parts) < 4 and random.random() < 0.5:
        parts += [random.choice(SEPARATORS[:12] if random.random() < 0.9 else SEPARATORS), _command(random)]
    text = "".join(parts)
    if random.random() < 0.1:
        text = random.choice(FRAMES).format(text)
    if random.random() < 0.05:
        at = random.randrange(len(text))
        text = text[:at] + random.choice(ARGUMENTS) + text[at + random.randrange(2) :]
    return text


def _command(random: Random) -> str:
    words = random.choice(EVIL if random.random() < 0.07 else HONEST)
    while random.random() < 0.35:
        words += " " + random.choice(ARGUMENTS)
    if random.random() < 0.15:
        words += " " + random.choice(REDIRECTIONS)
    return words


PLAIN_PROGRAMS = ("p1", "p2", "p3", "'p'1", "p\\2", '"p3"')


def plain_script(random: Random) -> str:
    """Commands of programs that do nothing, with words of every making."""
    commands = []
    for _ in range(random.randint(1, 3)):
        words = [random.choice(PLAIN_PROGRAMS)]
        for _ in range(random.randint(0, 5)):
            words.append("".join(random.choice(_PIECES) for _ in range(random.randint(1, 3))))
        commands.append(random.choice((" ", "  ", "\t", " \\\n ")).join(words))
        if random.random() < 0.2:
            commands[-1] += " " + random.choice(REDIRECTIONS)
    return random.choice(("; ", "\n", " && ", " | ", ";", "&&", "|", " # x\n", " |& ")).join(commands)


_PIECES = (
    *(
        "a",
        "b-c",
        "-x",
        "--y=z",
        "0",
        "12",
        "\\ ",
        "\\\\",
        "\\'",
        '\\"',
        "\\$",
        "\\#",
        "\\\n",
        "' '",
        "'\\'",
        "'\"'",
        "'$X'",
        "''",
    ),
    *(
        '" "',
        '"\\""',
        '"\\$X"',
        '"\\a"',
        '"\\\\"',
        '"\'"',
        '"a\nb"',
        "'a\nb'",
        '"\\\nc"',
        '""',
        '"$"',
        "$",
        "#",
        "=",
        "!",
        "^",
        "%",
    ),
    *(
        "@",
        "+",
        ":",
        ",",
        ".",
        "/",
        "{}",
        "é",
        "漢",
        "]",
        "~",
        "a=~",
        "a:~",
        "\\~",
        "'~'",
        "\\*",
        "'*'",
        '"?"',
        "!!",
        "!x",
        "a!",
        "-",
    ),
    *(
        "{",
        "}",
        "{a,b}",
        "[",
        "*",
        "?",
        "$X",
        '"$X"',
        "$'x'",
        '$"x"',
        "$(p1)",
        "`p1`",
        "(",
        ")",
        "&",
        "<",
        ">",
        ";",
        "|",
        "\r",
        "=(",
    ),
)
